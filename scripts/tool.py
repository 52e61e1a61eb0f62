"""What the scripts share: whatever is wrong with the input is one line on standard error, and exit code 2."""
import argparse
import csv
import importlib
import os
import sys


class BadInput(Exception):
    """The user's input is wrong; the text is the one line to print."""


class Parser(argparse.ArgumentParser):
    """Complains in one line, without the usage."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message} (--help tells what is allowed)\n")


def at_least_one(text):
    """The type of a count."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not an integer >= 1")
    return int(text)


def read_table(path, needed=(), what="a summary CSV of shardbench"):
    """Rows of a CSV file as dicts, each with all the cells of its header. Raises BadInput."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True)
            header = reader.fieldnames or []
            rows = list(reader)
    except OSError as error:
        raise BadInput(in_words(error, path)) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: no CSV file ({one_line(error)})") from error
    if not header:
        raise BadInput(f"{path}: empty file; {what} is needed")
    missing = [name for name in needed if name not in header]
    if missing:
        raise BadInput(f"{path}: no column {', '.join(missing)}; {what} is needed")
    for line, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise BadInput(f"{path}: line {line} has more or fewer cells than the header")
    return rows


def finite(path, line, name, text):
    """The cell as a number, None where it is empty. Raises BadInput."""
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if value - value != 0:
        raise BadInput(f"{path}: line {line}, column {name}: '{text}' is not a number")
    return value


def package(name):
    """A package of .venv; a line and exit code 2 where it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        print(f"{os.path.basename(sys.argv[0])}: {error}; scripts/setup.sh makes .venv, use .venv/bin/python", file=sys.stderr)
        sys.exit(2)


def one_line(text):
    return " ".join(str(text).split())


def in_words(error, path=None):
    return one_line(f"{path or error.filename or 'a file'}: {(error.strerror or str(error)).lower()}")


def run(main):
    """Exit code of main(arguments); what it is told wrong, and files that are not there, end in one line."""
    name = os.path.basename(sys.argv[0])
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 130
    except BadInput as error:
        print(f"{name}: {one_line(error)}", file=sys.stderr)
    except OSError as error:
        print(f"{name}: {in_words(error)}", file=sys.stderr)
    return 2
