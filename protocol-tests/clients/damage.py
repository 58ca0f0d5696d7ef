"""The kinds of damage in tests/golden/fixtures/damaged-*: what was done, what Apache Kafka 4.3.1 makes of it, and where Ottla does better and why.

What Kafka serves of each stands in the `.offsets.tsv` beside the directories; NOTES are what else it does. What Ottla serves is found out
by `fixtures.py`, which holds it against these tables and docs/damage.md, whose tables are printed here.

    UPDATE_DOCS=1 protocol-tests/run --only fixtures/damage       # writes docs/damage.md anew, from what Ottla did
"""

import dataclasses
import re

CUT = "only the torn batch goes, not the segment it is in"
DETECTED = "what has no right checksum is cut off, and not served"
MINE = "nobody else has the records, and the metadata gives the topic of this name to this node"
KEPT = "nobody else has the records behind the damage: they stay"


@dataclasses.dataclass
class Damage:
    what: str
    kafka: tuple = ("", "")  # what Kafka does besides, after a clean stop and after a kill
    better: tuple = ("", "")  # why Ottla serves something else than Kafka
    left: tuple = ("", "")  # the files that are still damaged after Ottla has served it and ended in order

    def __post_init__(self):
        self.kafka, self.better, self.left = map(both, (self.kafka, self.better, self.left))


def both(pair):
    return (pair, pair) if isinstance(pair, str) else pair


PARTITIONS = {
    "whole": Damage("nothing", ("", "active indexes rebuilt")),
    "tail-cut": Damage("the last batch lacks its last 50 bytes", ("one unreadable batch hides its segment", "cut off"), (CUT, "")),
    "tail-cut-in-header": Damage("only 30 bytes of the last batch are left", ("as before", "cut off"), (CUT, "")),
    "tail-cut-in-length": Damage("only 10 bytes of it are left", ("as before", "cut off"), (CUT, "")),
    "empty-last-segment": Damage("the last segment is empty"),
    "flip-last-batch": Damage("a byte of the last batch is wrong", ("", "cut off"), (DETECTED, "")),
    "flip-middle-segment": Damage("a byte of the first batch of the second segment is wrong", ("", "cut off, later segments deleted"), ("", KEPT), left=("00000000000000000040.log", "")),
    "flip-first-segment": Damage("a byte of the first batch of all is wrong", ("", "cut off, later segments deleted"), ("", KEPT), left=("00000000000000000000.log", "")),
    "flip-magic": Damage("the last batch has magic 7, which no checksum covers", "unnoticed", DETECTED),
    "length-too-big": Damage("the last batch says it has 2 GiB", ("hides its segment", "cut off"), (CUT, "")),
    "length-too-small": Damage("the last batch says it has 5 bytes", ("", "cut off"), ("one damaged partition is not the whole node", "")),
    "base-offset-zero": Damage("the last batch says it begins at offset 0", ("hides its segment", ""), (CUT, "one damaged partition is not the whole node")),
    "garbage-end": Damage("200 bytes of garbage at the end", ("they stay in the file", "cut off")),
    "zeros-end": Damage("300 zeros at the end", ("", "cut off"), ("one damaged partition is not the whole node", "")),
    "no-index": Damage("a sealed segment has no `.index`", "rebuilt"),
    "no-active-index": Damage("the last segment has no `.index`", "rebuilt"),
    "no-timeindex": Damage("a sealed segment has no `.timeindex`", ("an empty one", "rebuilt")),
    "empty-timeindex": Damage("a sealed segment has an empty `.timeindex`", ("left so", "rebuilt")),
    "index-odd-size": Damage("the `.index` of a sealed segment has 3 bytes more", "rebuilt"),
    "index-garbage": Damage("the `.index` of a sealed segment is garbage", ("unnoticed", "rebuilt")),
    "index-of-other-segment": Damage("a sealed segment has the `.index` of another one", ("unnoticed", "rebuilt")),
    "active-index-garbage": Damage("the `.index` of the last segment is garbage", ("the end is sought where it points", "rebuilt"),
                                   ("an index that names no batch is built anew", "")),
    "no-snapshots": Damage("no producer snapshots", ("the producers are forgotten", "rebuilt")),
    "no-last-snapshot": Damage("the newest producer snapshot is missing", "rebuilt from the one before"),
    "last-snapshot-corrupt": Damage("the newest producer snapshot has a wrong checksum", "rebuilt from the one before"),
    "no-txnindex": Damage("no index of aborted transactions", ("unnoticed: read_committed shows aborted records", "rebuilt"), left=("00000000000000000040.txnindex", "")),
    "txnindex-garbage": Damage("10 zeros behind the index of aborted transactions", ("left so", "rebuilt")),
    "no-leader-epoch": Damage("no `leader-epoch-checkpoint`", ("starts with the new epoch", "rebuilt")),
    "no-partition-metadata": Damage("no `partition.metadata`", "the log is set aside as `…-stray`, an empty one takes its place", MINE),
    "empty-partition-dir": Damage("the directory is empty", "set aside, an empty log takes its place"),
    "no-partition-dir": Damage("the directory is gone", "an empty log takes its place"),
    "no-middle-segment": Damage("the second segment's `.log` is gone", "its indexes removed"),
    "no-first-segment": Damage("the first segment's `.log` is gone", "its indexes removed"),
    "log-start-past-end": Damage("`log-start-offset-checkpoint` says 5000", "all segments deleted"),
    "log-start-inside": Damage("it says 13 (no damage)"),
    "recovery-point-past-end": Damage("`recovery-point-offset-checkpoint` says 5000", "ignored"),
    "leftovers": Damage("`.cleaned`, `.deleted`, a `-delete` directory are left", "removed"),
    "swap": Damage("a segment's files end in `.swap`", ("renamed; its index of aborted transactions is deleted", "renamed, recovered"),
                   ("the index of aborted transactions is built anew: read_committed hides what was aborted", "")),
}

# Damage of a partition with which Kafka does not start: in a directory each, of one topic, `d`.
FATAL = {"length-too-small": "clean", "zeros-end": "clean", "base-offset-zero": "unclean"}

PASSED = "only what is damaged is passed over"

# Damage of a segment that takes no more, in a directory that was closed in order. Its third batch is 51 to 60.
SECOND = "00000000000000000040.log"
SEALED = {
    "sealed-cut": Damage("the second segment ends within its third batch", "reads go on in the next segment", left=SECOND),
    "sealed-cut-in-header": Damage("it ends within the header of that", "as before", left=SECOND),
    "sealed-empty": Damage("it is empty", "as before; no record is the latest", PASSED, left="00000000000000000040.txnindex"),
    "sealed-garbage-end": Damage("200 bytes of garbage at its end", better=PASSED, left=SECOND),
    "sealed-zeros-end": Damage("300 zeros at its end", better=PASSED, left=SECOND),
    "sealed-length-too-big": Damage("its third batch says it has 2 GiB", better=PASSED, left=SECOND),
    "sealed-length-too-small": Damage("its third batch says it has 5 bytes", better=PASSED, left=SECOND),
    "sealed-magic": Damage("its third batch has magic 7", better=PASSED, left=SECOND),
    "sealed-base-offset-zero": Damage("its third batch says it begins at offset 0", left=SECOND),
    "sealed-renamed-up": Damage("its files are named by 43", left="00000000000000000043.log"),
    "sealed-renamed-down": Damage("its files are named by 37", left="00000000000000000037.log 00000000000000000037.snapshot"),
}

ONE = "one damaged file is not the whole node"
ROOT = {  # of a directory with the topics d and e
    "empty-leader-epoch": Damage("`d-0/leader-epoch-checkpoint` is empty", "a new one"),
    "leader-epoch-corrupt": Damage("its count does not fit", "the directory fails, and with it the node", ONE),
    "empty-partition-metadata": Damage("`d-0/partition.metadata` is empty", "", MINE),
    "partition-metadata-other-id": Damage("it has another topic id", "the log is set aside as `…-stray`, an empty one takes its place"),
    "no-root-checkpoints": Damage("no `*-checkpoint` in the root", "all counts as flushed"),
    "recovery-checkpoint-corrupt": Damage("`recovery-point-offset-checkpoint` cannot be read", "taken as absent"),
    "replication-checkpoint-corrupt": Damage("`replication-offset-checkpoint` is not UTF-8", "the directory fails, and with it the node", ONE),
    "no-meta-properties": Damage("no `meta.properties`"),
    "other-cluster-id": Damage("another `cluster.id`", "a lone node has nobody to disagree with"),
    "other-directory-id": Damage("another `directory.id`", "no partition has a leader, nothing can be read or written",
                                 "the logs in the directory are those of this node: it is noted where they are"),
    "other-node-id": Damage("another `node.id`"),
    "metadata-tail-cut": Damage("the metadata log lacks its last 20 bytes", "cut off"),
    "metadata-flip": Damage("a byte in the metadata log is wrong", "cut off there: topics are gone, their logs set aside as `…-stray`"),
    "no-quorum-state": Damage("no `quorum-state`", "the epoch is taken from the log"),
    "no-bootstrap-checkpoint": Damage("no `bootstrap.checkpoint`", "not needed any more"),
    "foreign-directory": Damage("a directory `not-a-partition`", "", ONE, left="not-a-partition"),
    "foreign-directory-without-dash": Damage("a directory `lostfound`", "", ONE, left="lostfound"),
}

HEAD = """\
# Damage

What becomes of damaged files when the broker starts on them, in Apache Kafka 4.3.1 and in Ottla. Each row is a directory, or a partition of
one, that Kafka wrote and that was then damaged in this one way; `protocol-tests/run --only fixtures` has either broker start on it, and checks
this page.

In Ottla no damage of one partition keeps the node from starting, what can be read and nobody else has stays, torn batches are not served,
and the log says what was wrong. But with `.kafka_cleanshutdown` a start trusts the sealed segments, as Kafka does, and does not read
them: a batch that is damaged there is found by the checksum in it, by whoever reads it. `ottla verify-log` finds all of this without a start,
and can repair more ([tools.md](tools.md#ottla-verify-log)).

Where records are taken out while a transaction is open, its marker may have been among them: the next marker of its producer decides then, and
the log tells whose transactions these are; until then read_committed ends before them. So it is though the index of aborted transactions had the
marker: a client hides the records of a producer up to the marker that it reads, and without one it would hide those of later transactions as
well. Kafka ends the log there, so that nothing behind it is read.

A segment with offsets more than 2^31 behind its name, as brokers before Kafka 1.1 made them (KAFKA-6264), is no damage if another segment follows
it: it is read, and stays as it is. Kafka reads it, too, and splits it after a crash; Ottla does not compact its log, and says so.

## Files of a partition
Whole, each log holds the offsets 0 to 101, in batches of 10 and three segments, which begin at 0, 40 and 72. Offsets 50 and 61 are markers: 40 to
49 are of a transaction that was aborted. A cell says from where to where the log goes then, and how many records are read,
uncommitted / committed: whole, that is `0..102, 100/90`. *Closed* directories were closed in order; of *killed* ones Kafka trusts nothing (there is no
marker, and the recovery points are 0). The partitions have one replica; of one that has others Ottla cuts the log off at the damage and fetches
what is missing.

**Bold**: where Ottla has more records than Kafka, hides what must not be seen, or starts where Kafka does not. The numbers say why:
"""

SEALED_HEAD = """
## Sealed segments
The same logs, in a directory with `.kafka_cleanshutdown`, where the start looks at no more of the second segment than its size. Readers go on at the next batch that is whole and
in its place, or in the next segment, and the log tells of it once. A read that begins before such damage may still send it, which the client
refuses; a client that asks again and again, or where it was refused, is not sent it any more.
"""

ROOT_HEAD = """
## Files of the whole directory
Directories of two such topics, `d` and `e`, that were closed in order.
"""

NO_FILES = """\
## What is no file
A directory, a FIFO, a socket, a device, a symbolic link to nothing or in a circle, where a file or a directory should be; a link that leads to
one is as good as that. In Ottla nothing waits for it, and the other partitions serve; the tests of `ottla verify-log` have each of them in each
place. Kafka was given a directory, a link to nothing or a FIFO in the place of a file of the second segment, or beside it, after an end in order.

| in the place of | Kafka | Ottla |
|---|---|---|
| `.index`, `.timeindex` | 0..102, 100/90; of a directory the first read that needs it fails, and with it the node | 0..102, 100/90; renamed to `….set-aside`, and made anew from the records |
| `.txnindex` | of a directory it does not start; of a link to nothing: read_committed shows aborted records, 100/100 | as an `.index` |
| `.snapshot`, `leader-epoch-checkpoint` | does not start; at a FIFO it waits for ever | as an `.index` |
| what ends in `.deleted` or `.cleaned` | 0..102, 100/90; a directory stays, if it is not empty | as an `.index` |
| `partition.metadata` | of a directory it does not start; of a link to nothing the log is set aside as `…-stray`, an empty one takes its place | as if there were none |
| a `.log` | 0..102, 70/70: as if the segment were not there | the partition is offline (KAFKA_STORAGE_ERROR) until it is put right and the broker started again: the records may be on a volume that is missing. Nothing of it is changed, and its topic can be deleted |
| the directory of a partition | does not start | as a `.log` |
| `.kafka_cleanshutdown` | as if there were none | as if there were none; a directory is renamed to `….set-aside` when the file is written |
| the checkpoints in the root, `.lock`, `bootstrap.checkpoint` | does not start | as if there were none; a directory is renamed to `….set-aside` when the file is written |
| `meta.properties`, `quorum-state`, the `.log` of `__cluster_metadata-0`, itself | does not start | does not start, and says which |

A file of a partition that the broker may not read (its permissions) is no reason to make it anew: the partition is offline. Where the start
does not need it, that of a closed segment in a directory that was closed, reads of that segment fail (KAFKA_STORAGE_ERROR), and whatever else
needs it takes the partition offline, and no other. So it is with a file that is gone, or something else, by the time that an open log needs it.
In the root of the directory the node does not start with such a file, and says which.

A copy of a move, `d-0.…-future`, beside `d-0` itself, where no move leads, is removed, or set aside as `-stray` if it goes further. In Kafka it
cannot take the place of the log, and the directory fails.
"""

TOLD_HEAD = """
## What the log says
At WARN or ERROR, until all has been read once; of partitions in the directory that was closed, or, if it says nothing there, in the one of the broker that was
killed.

"""

SILENT = """
Of these the log says nothing, as nothing is lost or nobody could know: """


def count(read):
    return read.split()[0]


def cell(row):
    """`LOG START..LOG END, UNCOMMITTED/COMMITTED`"""
    if row is None:
        return "does not start"
    text = f"{row['log_start']}..{row['log_end']}, {count(row['uncommitted'])}/{count(row['committed'])}"
    return text + (", then consumers fail" if " then " in row["uncommitted"] else "")


def with_note(text, note):
    return f"{text}; {note}" if note else text


class Reasons:
    """Numbered as they come."""

    def __init__(self):
        self.known = []

    def mark(self, text, reason):
        if not reason:
            return text
        if reason not in self.known:
            self.known.append(reason)
        return f"**{text}** ({self.known.index(reason) + 1})"

    def __str__(self):
        return "".join(f"{number}. {reason}\n" for number, reason in enumerate(self.known, 1))


def page(outcomes):
    """`outcomes`: of each directory what Kafka serves, by partition, or None, and what Ottla made of it."""
    reasons, told, silent = Reasons(), [], []
    partitions = list(partition_rows(outcomes, reasons, told, silent))
    sealed_reasons = Reasons()
    sealed = list(sealed_rows(outcomes, sealed_reasons, told, silent))
    root_reasons = Reasons()
    root = list(root_rows(outcomes, root_reasons, told, silent))
    lines = [HEAD + "\n" + str(reasons), "| partition | damage | Kafka, closed | Kafka, killed | Ottla, closed | Ottla, killed |", "|---|---|---|---|---|---|", *partitions,
             SEALED_HEAD + "\n" + str(sealed_reasons), "| partition | damage | Kafka | Ottla |", "|---|---|---|---|", *sealed,
             ROOT_HEAD + "\n" + str(root_reasons), "| directory | damage | Kafka | Ottla |", "|---|---|---|---|", *root,
             "\n" + NO_FILES.rstrip("\n"),
             TOLD_HEAD + "| | |", "|---|---|", *told, SILENT + ", ".join(silent) + "."]
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def of_partition(outcomes, kind, end):
    """Kafka's row, Ottla's row and what was told of one kind of damage."""
    if FATAL.get(kind) == end:
        _, ours = outcomes[f"damaged-fatal-{kind}-{end}"]
        place = "d-0"
        return None, ours.served[place], [line for line in ours.told if re.search(rf"={place}([ /.]|$)", line)]
    kafkas, ours = outcomes[f"damaged-partitions-{'clean' if end == 'clean' else 'unclean'}"]
    place = f"{kind}-0"
    return kafkas[place], ours.served[place], [line for line in ours.told if re.search(rf"={place}([ /.]|$)", line)]


def partition_rows(outcomes, reasons, told, silent):
    for kind, found in PARTITIONS.items():
        cells, lines = [[], []], []
        for column, end in enumerate(("clean", "unclean")):
            kafkas, ours, said = of_partition(outcomes, kind, end)
            lines = lines or said
            cells[0].append(with_note(cell(kafkas), found.kafka[column]))
            left = "stays damaged" if found.left[column] and not found.better[column] else ""
            cells[1].append(with_note(reasons.mark(cell(ours), found.better[column]), left))
        yield f"| `{kind}` | {found.what} | {' | '.join(cells[0] + cells[1])} |"
        tell(kind, lines, told, silent)


def sealed_rows(outcomes, reasons, told, silent):
    kafkas, ours = outcomes["damaged-sealed-clean"]
    for kind, found in SEALED.items():
        place = f"{kind}-0"
        yield f"| `{kind}` | {found.what} | {with_note(cell(kafkas[place]), found.kafka[0])} | {reasons.mark(cell(ours.served[place]), found.better[0])} |"
        tell(kind, [line for line in ours.told if re.search(rf"={place}([ /.]|$)", line)], told, silent)


def root_rows(outcomes, reasons, told, silent):
    for kind, found in ROOT.items():
        kafkas, ours = outcomes[f"damaged-root-{kind}"]
        rows = "does not start" if kafkas is None else both_topics(kafkas)
        if kind == "other-directory-id":
            rows = "starts"
        result = "does not start" if ours.refusal else both_topics(ours.served)
        yield f"| `{kind}` | {found.what} | {with_note(rows, found.kafka[0])} | {reasons.mark(result, found.better[0])} |"
        tell(kind, ours.told, told, silent)


def both_topics(rows):
    cells = {topic: cell(rows[f"{topic}-0"]) if f"{topic}-0" in rows else "no topic" for topic in ("d", "e")}
    return cells["d"] if cells["d"] == cells["e"] else f"d: {cells['d']}; e: {cells['e']}"


def tell(kind, lines, told, silent):
    if lines:
        told.append(f"| `{kind}` | " + "<br>".join(f"`{line.replace('|', chr(92) + '|')}`" for line in lines) + " |")
    elif kind != "whole":
        silent.append(f"`{kind}`")
