"""``python -m nooch``: the command line."""

from nooch.cli import main

if __name__ == "__main__":
    main()
