"""`python -m odf` is the same as `odf`."""

from odf.cli.main import main

main()
