"""Decisions about a stream of jobs: what runs next, when, and which failures deserve another attempt."""
