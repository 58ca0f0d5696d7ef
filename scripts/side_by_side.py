"""What the benchmarks beside Apache Kafka share: both brokers run all the time, on the same settings; each measurement runs on one and then
the other, and the order changes from round to round. A figure is the median of the rounds."""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "protocol-tests"))

from clients import machine  # noqa: E402
from clients.brokers import Kafka, Ottla  # noqa: E402

CONGESTION_CONTROL = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass
class Measurement:
    names: list  # of the rows it gives
    unit: str  # or a list, one for each
    measure: callable  # (broker, topic) → a figure for each row
    more_is_better: bool = True
    prepare: callable = None  # (broker, topic), not measured


@dataclasses.dataclass
class Sample:
    figures: list
    cpu_seconds: float
    resident_mib: float


def load(command, broker, topic, **flags):
    """What benches/load says."""
    done = subprocess.run(load_command(command, broker, topic, **flags), capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise RuntimeError(f"{command} on {broker.kind}: {done.stderr}\n{broker.tail()}")
    return json.loads(done.stdout)


def load_command(command, broker, topic, **flags):
    words = [word for name, value in flags.items() for word in (f"-{name}", str(value))]
    return [machine.go_program(ROOT / "benches/load"), command, broker.bootstrap, topic, *words]


def take(of, broker, topic):
    """One sample of a measurement."""
    if of.prepare:
        of.prepare(broker, topic)
    process, before = broker.process, cpu_seconds(broker)
    figures = of.measure(broker, topic)
    spent = cpu_seconds(broker) - (before if broker.process is process else 0)  # or of the one that runs since a restart
    return Sample(figures, spent, resident_mib(broker))


def cpu_seconds(broker):
    fields = pathlib.Path(f"/proc/{broker.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mib(broker):
    status = pathlib.Path(f"/proc/{broker.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


@contextlib.contextmanager
def cubic():
    """For all who connect or listen from here on."""
    before = CONGESTION_CONTROL.read_text().strip()
    if before == "cubic" or os.geteuid() != 0:
        print(f"congestion control: {before}", file=sys.stderr)
        yield
        return
    CONGESTION_CONTROL.write_text("cubic")
    try:
        yield
    finally:
        CONGESTION_CONTROL.write_text(before)


def lines(of, ottla, kafka):
    """The rows of the table, from the samples of both."""
    def median(samples, field):
        return statistics.median(getattr(sample, field) for sample in samples)

    costs = (f"{median(ottla, 'cpu_seconds'):.2f} s | {median(kafka, 'cpu_seconds'):.2f} s "
             f"| {median(ottla, 'resident_mib'):.0f} MiB | {median(kafka, 'resident_mib'):.0f} MiB")
    units = of.unit if isinstance(of.unit, list) else [of.unit] * len(of.names)
    for place, (name, unit) in enumerate(zip(of.names, units)):
        ours, theirs = (statistics.median(sample.figures[place] for sample in samples) for samples in (ottla, kafka))
        ratio = "" if unit == "%" else f"{ours / theirs if of.more_is_better else theirs / ours:.2f}"
        yield f"| {name} | {ours:.4g} {unit} | {theirs:.4g} {unit} | {ratio} | {costs} |"


def arguments(description, rounds):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target/release/ottla")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    os.environ.setdefault("KAFKA_HEAP_OPTS", "-Xmx1g -Xms1g")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    machine.kafka_jars(), machine.java_classes(), machine.go_program(ROOT / "benches/load")  # no installing runs beside a measurement
    return options


def turns(rounds):
    """The kind of broker to measure next, and the round: who begins changes from round to round."""
    for round_ in range(rounds):
        for kind in ("ottla", "kafka") if round_ % 2 == 0 else ("kafka", "ottla"):
            yield kind, round_


def broker_of(kind, options, *arguments, **more):
    """One that does not run yet."""
    return Kafka(*arguments, **more) if kind == "kafka" else Ottla(str(options.binary.resolve()), *arguments, **more)


HEAD = "| | Ottla | Kafka | better by | CPU Ottla | CPU Kafka | RSS Ottla | RSS Kafka |\n|---|---|---|---|---|---|---|---|"


def compare(options, settings, measurements, warm_up, sample=take):
    """Prints the rows of the measurements that were asked for, of two new brokers."""
    chosen = [of for of in measurements if any(re.search(options.only, name) for name in of.names)]
    if not chosen:
        return
    with tempfile.TemporaryDirectory(prefix="bench-", dir=os.environ.get("BENCH_DIR")) as folder, cubic():
        folder = pathlib.Path(folder)
        ottla = Ottla(str(options.binary.resolve()), folder / "ottla", settings=settings)
        kafka = Kafka(folder / "kafka", settings=settings)
        with ottla, kafka:
            warm_up([ottla, kafka])
            for place, of in enumerate(chosen):
                samples = {ottla: [], kafka: []}
                for round_ in range(options.rounds):
                    order = [ottla, kafka] if (place + round_) % 2 == 0 else [kafka, ottla]
                    for broker in order:
                        samples[broker].append(sample(of, broker, f"bench-{place}-{round_}"))
                print(*lines(of, samples[ottla], samples[kafka]), sep="\n", flush=True)
