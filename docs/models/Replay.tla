------------------------------- MODULE Replay -------------------------------
(* The sessions of an application lose their connections. One session at a time reconnects. A session opens all its objects again, in
   their order, drops cached attributes, and never repeats a commit that got no answer. Source: docs/decisions/0023. *)
EXTENDS Naturals, Sequences, FiniteSets
CONSTANTS Sessions, Objects, Outages, Units, Defect

Nobody == "nobody"
All == [i \in 1..Objects |-> i]
VARIABLES up,          \* true if the queue manager can be reached
          generation,  \* the number of outages that have ended
          gate,        \* the session that reconnects
          dialling,    \* the sessions that try to connect now
          state,       \* of each session: works, commits, lost, dials, replays
          opened,      \* the open objects of each session, in order
          cached,      \* the generation of the cached attributes of each session
          since,       \* the generation in which each session connected
          unit,        \* the number of the unit of work of each session
          applied,     \* how often the queue manager has committed each unit
          doubtful,    \* units whose commit got no answer
          answered,    \* units whose commit was answered
          outages
vars == <<up, generation, gate, dialling, state, opened, cached, since, unit, applied, doubtful, answered, outages>>

Each == Sessions \X (1..Units)
Init == /\ up = TRUE /\ generation = 0 /\ gate = Nobody /\ dialling = {}
        /\ state = [s \in Sessions |-> "works"] /\ opened = [s \in Sessions |-> All]
        /\ cached = [s \in Sessions |-> 0] /\ since = [s \in Sessions |-> 0] /\ unit = [s \in Sessions |-> 1]
        /\ applied = [u \in Each |-> 0] /\ doubtful = {} /\ answered = {} /\ outages = Outages

Becomes(s, what) == state' = [state EXCEPT ![s] = what]
Unit(s) == <<s, unit[s]>>
NextUnit(s) == unit' = [unit EXCEPT ![s] = @ + 1]

Commit(s) == /\ state[s] = "works" /\ up /\ unit[s] <= Units /\ Becomes(s, "commits")
             /\ UNCHANGED <<up, generation, gate, dialling, opened, cached, since, unit, applied, doubtful, answered, outages>>
Apply(s) == /\ state[s] = "commits" /\ up /\ applied[Unit(s)] < 2 /\ Becomes(s, "applied")
            /\ applied' = [applied EXCEPT ![Unit(s)] = @ + 1]
            /\ UNCHANGED <<up, generation, gate, dialling, opened, cached, since, unit, doubtful, answered, outages>>
Answer(s) == /\ state[s] = "applied" /\ up /\ Becomes(s, "works") /\ NextUnit(s) /\ answered' = answered \union {Unit(s)}
             /\ UNCHANGED <<up, generation, gate, dialling, opened, cached, since, applied, doubtful, outages>>

Outage == /\ outages > 0 /\ up /\ up' = FALSE /\ outages' = outages - 1
          /\ state' = [s \in Sessions |-> CASE state[s] = "works" -> "lost"
                                            [] state[s] \in {"commits", "applied"} -> "in doubt"
                                            [] OTHER -> state[s]]
          /\ UNCHANGED <<generation, gate, dialling, opened, cached, since, unit, applied, doubtful, answered>>
Back == ~up /\ up' = TRUE /\ UNCHANGED <<generation, gate, dialling, state, opened, cached, since, unit, applied, doubtful, answered, outages>>

\* The application reports the unit in doubt, and begins the next unit. The planted defect repeats the unit.
Doubt(s) == /\ state[s] = "in doubt" /\ Becomes(s, "lost") /\ doubtful' = doubtful \union {Unit(s)}
            /\ unit' = IF Defect = "commit repeated" THEN unit ELSE [unit EXCEPT ![s] = @ + 1]
            /\ answered' = IF Defect = "doubt called success" THEN answered \union {Unit(s)} ELSE answered
            /\ UNCHANGED <<up, generation, gate, dialling, opened, cached, since, applied, outages>>

EnterGate(s) == /\ state[s] = "lost"
                /\ (gate = Nobody \/ Defect = "no gate")
                /\ gate' = s /\ dialling' = dialling \union {s} /\ Becomes(s, "dials")
                /\ UNCHANGED <<up, generation, opened, cached, since, unit, applied, doubtful, answered, outages>>
Later(s) == IF since[s] = generation THEN generation + 1 ELSE generation
Connect(s) == /\ state[s] = "dials" /\ up /\ Becomes(s, "replays")
              /\ generation' = Later(s)
              /\ since' = [since EXCEPT ![s] = Later(s)]
              /\ opened' = [opened EXCEPT ![s] = <<>>]
              /\ cached' = IF Defect = "cache kept" THEN cached ELSE [cached EXCEPT ![s] = Later(s)]
              /\ dialling' = dialling \ {s} /\ gate' = Nobody
              /\ UNCHANGED <<up, unit, applied, doubtful, answered, outages>>
Following(s) == IF Defect = "object skipped" /\ Len(opened[s]) = 1 THEN Objects ELSE Len(opened[s]) + 1
Reopen(s) == /\ state[s] = "replays"
             /\ IF up /\ Len(opened[s]) < Objects
                THEN /\ opened' = [opened EXCEPT ![s] = Append(opened[s], Following(s))]
                     /\ UNCHANGED state
                ELSE /\ Becomes(s, IF up THEN "works" ELSE "lost")    \* the connection is lost again during the replay
                     /\ UNCHANGED opened
             /\ UNCHANGED <<up, generation, gate, dialling, cached, since, unit, applied, doubtful, answered, outages>>

Step(s) == Commit(s) \/ Apply(s) \/ Answer(s) \/ Doubt(s) \/ EnterGate(s) \/ Connect(s) \/ Reopen(s)
Next == Outage \/ Back \/ \E s \in Sessions : Step(s)
Spec == Init /\ [][Next]_vars /\ WF_vars(Back) /\ \A s \in Sessions : WF_vars(Step(s)) /\ SF_vars(EnterGate(s)) /\ SF_vars(Connect(s))

OneReconnects == Cardinality(dialling) <= 1
NeverCommittedTwice == \A u \in Each : applied[u] <= 1
SuccessIsTrue == \A u \in answered : applied[u] = 1
ReopenedInOrder == \A s \in Sessions : state[s] = "works" => opened[s] = All
CacheOfThisGeneration == \A s \in Sessions : state[s] \in {"works", "commits"} => cached[s] = since[s]
EveryoneWorksAgain == <>[](\A s \in Sessions : state[s] = "works")
=============================================================================
