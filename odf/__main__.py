"""`python -m odf` is the same as `odf`."""

import signal


def main() -> None:
    """Run the command line of this process.

    Loading takes a tenth of a second, and there is nothing to unwind yet: who interrupts it then
    ends it, as with any other program, without a traceback.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from odf.cli.main import main as run  # noqa: PLC0415  # only now

    run()


if __name__ == "__main__":
    main()
