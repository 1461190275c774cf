"""``python -m netsim`` is ``netsim``."""

from netsim.cli.main import main

if __name__ == "__main__":
    main()
