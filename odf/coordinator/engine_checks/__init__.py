"""What every engine has to do alike, as checks against a running one.

`odf engine check` runs them against anybody's image, the tests against our own engines in every
runtime. A check asks for what the protocol says (engine-protocol.md §1, §4), or for a rule of
ours that only an engine of ours is held to. Queries use back-quotes around names.
"""
