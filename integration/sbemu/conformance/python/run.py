"""Runs the tests and reports what became of each as `go test -json` does: the
conformance command reads both alike.

Each test has a process of its own: uamqp is written in C, and a crash of it ends the
process. Several run beside each other, because they mostly wait."""
import json
import os
import re
import sys
import unittest

PROCESSES = 8


class Report(unittest.TestResult):
    def addSuccess(self, test):
        report(test, "pass")

    def addSkip(self, test, reason):
        report(test, "skip", reason)

    def addFailure(self, test, error):
        report(test, "fail", self._exc_info_to_string(error, test))

    addError = addFailure


def report(test, action, output=None):
    name = test.id().split(".")[-1]
    lines = [json.dumps({"Action": action, "Test": name})]
    if output is not None:
        output = f"Error: {output.splitlines()[-1]}\n{output}\n"
        lines.insert(0, json.dumps({"Action": "output", "Test": name, "Output": output}))
    # One write: the lines of several processes must not mix.
    os.write(sys.stdout.fileno(), "".join(line + "\n" for line in lines).encode())


def main():
    only = re.compile(sys.argv[1] if len(sys.argv) > 1 else "")
    found = unittest.defaultTestLoader.discover(os.path.dirname(os.path.abspath(__file__)))
    running = {}
    for test in flatten(found):
        if only.search(test.id()):
            if len(running) == PROCESSES:
                finish(running)
            running[start(test)] = test
    while running:
        finish(running)


def start(test):
    child = os.fork()
    if child == 0:
        test.run(Report())
        os._exit(0)
    return child


def finish(running):
    child, status = os.wait()
    test = running.pop(child)
    if os.WIFSIGNALED(status):
        report(test, "fail", f"the process of the SDK ended by signal {os.WTERMSIG(status)}")


def flatten(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from flatten(item)
        else:
            yield item


main()
