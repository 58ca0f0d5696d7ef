"""Ottla against Apache Kafka 4.3.1, answer by answer: see README.md beside this file."""

import argparse
import concurrent.futures
import contextlib
import json
import pathlib
import random
import re
import string
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(1, str(HERE.parent))

import brokers  # noqa: E402
import compare  # noqa: E402
import scenario  # noqa: E402

TRANSCRIPTS = HERE / "transcripts"


def main():
    parser = argparse.ArgumentParser(prog="differential", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record", help="start Apache Kafka, run the scenarios, write the transcripts")
    check = commands.add_parser("check", help="run the scenarios and compare with the transcripts")
    listing = commands.add_parser("list", help="print the scenarios' names")
    target = check.add_mutually_exclusive_group(required=True)
    for command in (record, target):
        command.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker that runs already, with settings.properties")
    target.add_argument("--binary", metavar="PATH", help="start this broker on a free port in a temporary directory")
    target.add_argument("--kafka", action="store_true", help="start Apache Kafka: the harness checks itself; no difference is accepted")
    for command in (record, check, listing):
        command.add_argument("--only", metavar="REGEX", default="", help="only scenarios whose name matches")
    for command in (record, check):
        command.add_argument("--jobs", type=int, default=8, help="scenarios at a time")
        command.add_argument("--port", type=int, help="first of two ports for a broker to start; any free ones otherwise")
        command.add_argument("--keep", metavar="DIR", help="the started broker's directory, which is kept")
        command.add_argument("-v", "--verbose", action="store_true", help="each scenario as it ends; each difference in full")
    options = parser.parse_args()
    scenarios = [s for s in scenario.load() if re.search(options.only, s.name)]
    if getattr(options, "bootstrap", None) and (others := [s for s in scenarios if s.settings]):
        print(f"{len(others)} scenarios need a broker with settings of their own and are not run")
        scenarios = [s for s in scenarios if not s.settings]
    if options.command == "list":
        print(*(s.name for s in scenarios), sep="\n")
        return 0
    return {"record": record_all, "check": check_all}[options.command](scenarios, options)


def record_all(scenarios, options):
    failed = 0
    written = {} if not options.only else load_transcripts()
    for each, steps, problem in play_all(scenarios, options):
        if problem:
            failed += 1
            print(f"{each.name}: {steps[-1][1]}")
            written.pop(each.name, None)
        else:
            written[each.name] = steps
    save_transcripts({s.name: written[s.name] for s in scenario.REGISTRY if s.name in written})
    print(f"{len(scenarios) - failed} recorded" + (f", {failed} did not run to their end and are left out" if failed else ""))
    return 1 if failed else 0


def check_all(scenarios, options):
    recorded = load_transcripts()
    accepted = [] if options.kafka else compare.load_accepted(HERE / "differences.toml")
    failed = 0
    for each, steps, _ in play_all(scenarios, options):
        if each.name not in recorded:
            lines = ["not recorded"]
        else:
            lines = unaccepted(each.name, compare.transcript_differences(recorded[each.name], steps), accepted)
        failed += bool(lines)
        if lines:
            print(f"{each.name}: {render(lines, options.verbose)}", flush=True)
    passed = len(scenarios) - failed
    for name in recorded.keys() - {s.name for s in scenario.REGISTRY}:
        failed += 1
        print(f"{name}: recorded, but there is no such scenario")
    for entry in accepted:
        # with --only, an entry counts as unused only if all scenarios that it speaks of were run
        about = [s for s in scenario.REGISTRY if re.fullmatch(entry.scenario, s.name)]
        if not entry.used and all(s in scenarios for s in about):
            failed += 1
            print(f"differences.toml: unused: {entry.scenario} {entry.path}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def unaccepted(name, found, accepted):
    lines = []
    for path, expected, actual in found:
        covering = [entry for entry in accepted if entry.covers(name, path, actual)]
        for entry in covering:
            entry.used = True
        if not covering:
            lines.append(f"{path}: Kafka {compare.show(expected)}, here {compare.show(actual)}")
    return lines


def render(lines, verbose):
    if verbose:
        return "".join(f"\n    {line}" for line in lines)
    shown = [line if len(line) < 300 else line[:300] + "…" for line in lines[:4]]
    return "; ".join(shown) + (f"; and {len(lines) - 4} more" if len(lines) > 4 else "")


@contextlib.contextmanager
def target(options, settings, number):
    """The broker that has these settings, the `number`th that is started."""
    keep = options.keep and str(pathlib.Path(options.keep, str(number)) if number else options.keep)
    if options.bootstrap:
        host, _, port = options.bootstrap.rpartition(":")
        yield host, int(port)
    elif options.command == "record" or options.kafka:
        with brokers.kafka(options.port, keep, settings) as address:
            yield address
    else:
        with brokers.binary(options.binary, options.port, keep, settings) as address:
            yield address


def play_all(scenarios, options):
    """(scenario, steps, problem) of each, as they end; those with the same settings on one broker."""
    by_settings = {}
    for each in scenarios:
        by_settings.setdefault(each.settings, []).append(each)
    for number, settings in enumerate(sorted(by_settings)):
        with target(options, settings, number) as address:
            yield from play_some(by_settings[settings], address, options)


def play_some(scenarios, address, options):
    """Side by side, but the exclusive ones afterwards, one by one."""
    # one first letter, so that our names always sort alike among fixed ones
    run = "t" + "".join(random.choices(string.ascii_lowercase + string.digits, k=4))
    scenario.warm_up(address)

    def play(each):
        start = time.monotonic()
        steps, problem = scenario.play(each, address, run)
        if options.verbose:
            print(f"  {time.monotonic() - start:6.2f} s  {each.name}", file=sys.stderr)
        # as a transcript comes back from its file
        return each, json.loads(json.dumps(steps)), problem

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        waiting = [pool.submit(play, each) for each in scenarios if not each.exclusive]
        for future in concurrent.futures.as_completed(waiting):
            yield future.result()
    for each in scenarios:
        if each.exclusive:
            yield play(each)


def load_transcripts():
    recorded = {}
    for path in sorted(TRANSCRIPTS.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            name, steps = json.loads(line)
            recorded[name] = recorded[steps] if isinstance(steps, str) else steps
    return recorded


def save_transcripts(recorded):
    """One file per file of scenarios, a line per scenario; one that says what another version says has that one's name instead."""
    TRANSCRIPTS.mkdir(exist_ok=True)
    for path in TRANSCRIPTS.glob("*.jsonl"):
        path.unlink()
    files, written = {}, {}
    for name, steps in recorded.items():
        base = name.rpartition("@v")[0]
        alike = next((other for other in written.get(base, ()) if recorded[other] == steps), None)
        if base and not alike:
            written.setdefault(base, []).append(name)
        line = json.dumps([name, alike or steps], ensure_ascii=False, separators=(",", ":"))
        files.setdefault(name.split("/")[0], []).append(line)
    for file, lines in files.items():
        (TRANSCRIPTS / f"{file}.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
