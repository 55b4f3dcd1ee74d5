------------------------------ MODULE Takeover ------------------------------
(* The owners of one data folder. An owner needs the lock, and writes its epoch into the lock file. It reads the store once, and then
   writes the store from its memory. Owners are killed. Once, the lock file is deleted, and a second owner begins.
   An owner looks at the lock and writes in one step. In reality some microseconds pass between the two, and the lock protects this
   time. Source: docs/decisions/0029. *)
EXTENDS Naturals, FiniteSets
CONSTANTS Owners, Messages, Kills, Accidents, Defect

Nobody == "nobody"
VARIABLES lock,      \* the owner that holds the lock
          record,    \* the epoch in the lock file
          epoch,     \* the epoch in the store
          stored,    \* messages in the store
          answered,  \* messages whose put was answered
          state,     \* of each owner: waits, active, stopped, dead
          own,       \* the epoch of each owner
          memory,    \* the messages that each owner knows
          kills, accidents
vars == <<lock, record, epoch, stored, answered, state, own, memory, kills, accidents>>

Init == /\ lock = Nobody /\ record = 0 /\ epoch = 0 /\ stored = {} /\ answered = {}
        /\ state = [o \in Owners |-> "waits"] /\ own = [o \in Owners |-> 0] /\ memory = [o \in Owners |-> {}]
        /\ kills = Kills /\ accidents = Accidents

TakeOver(o) == /\ state[o] = "waits"
               /\ lock = Nobody \/ Defect = "lock not asked"
               /\ lock' = o /\ epoch' = epoch + 1 /\ record' = epoch + 1
               /\ own' = [own EXCEPT ![o] = epoch + 1]
               /\ memory' = [memory EXCEPT ![o] = IF Defect = "read before the lock" THEN @ ELSE stored]
               /\ state' = [state EXCEPT ![o] = "active"]
               /\ UNCHANGED <<stored, answered, kills, accidents>>

Fenced(o) == lock = o /\ record = own[o]
Put(o, m) == /\ state[o] = "active" /\ m \notin stored \union answered
             /\ Fenced(o) \/ Defect \in {"no fence", "lock not asked"}
             /\ memory' = [memory EXCEPT ![o] = @ \union {m}]
             /\ IF Defect = "answered before written"
                THEN UNCHANGED stored
                ELSE stored' = memory[o] \union {m}    \* the store gets the pages that this owner knows
             /\ answered' = answered \union {m}
             /\ UNCHANGED <<lock, record, epoch, state, own, kills, accidents>>

WriteLater(o) == /\ Defect = "answered before written" /\ state[o] = "active" /\ stored # memory[o]
                 /\ stored' = memory[o]
                 /\ UNCHANGED <<lock, record, epoch, answered, state, own, memory, kills, accidents>>

Stop(o) == /\ state[o] = "active" /\ ~Fenced(o)      \* permanently
           /\ state' = [state EXCEPT ![o] = "stopped"]
           /\ UNCHANGED <<lock, record, epoch, stored, answered, own, memory, kills, accidents>>

Killed(o) == /\ kills > 0 /\ kills' = kills - 1 /\ state[o] = "active"
             /\ state' = [state EXCEPT ![o] = "dead"]
             /\ lock' = IF lock = o /\ Defect # "lock inherited by a child" THEN Nobody ELSE lock
             /\ UNCHANGED <<record, epoch, stored, answered, own, memory, accidents>>

LockDeleted == /\ accidents > 0 /\ accidents' = accidents - 1 /\ lock # Nobody /\ lock' = Nobody /\ record' = 0
               /\ UNCHANGED <<epoch, stored, answered, state, own, memory, kills>>

Next == \/ \E o \in Owners : TakeOver(o) \/ WriteLater(o) \/ Stop(o) \/ Killed(o) \/ \E m \in Messages : Put(o, m)
        \/ LockDeleted
Spec == Init /\ [][Next]_vars /\ \A o \in Owners : WF_vars(TakeOver(o)) /\ WF_vars(Stop(o))

AnsweredIsStored == Defect = "answered before written" \/ answered \subseteq stored
NothingIsLostByAKill == \A o \in Owners : state[o] = "active" /\ own[o] = epoch => answered \subseteq memory[o]
OneOwnerWrites == \A o, p \in Owners : o # p /\ state[o] = "active" /\ state[p] = "active" => ~(Fenced(o) /\ Fenced(p))
EpochsDiffer == \A o, p \in Owners : o # p /\ own[o] # 0 => own[o] # own[p]
SomebodyGoesOn == <>(\E o \in Owners : state[o] = "active" /\ Fenced(o)) /\
                  []((\E o \in Owners : state[o] = "waits") => <>(\E o \in Owners : state[o] = "active" /\ Fenced(o)))
=============================================================================
