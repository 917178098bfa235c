"""The command line: parses, calls one use case, renders what it returns.

Nothing else in the project prints or reads the environment. A command's module is imported only
when that command runs or shows its help, so that `odf --help` costs what click costs.
"""
