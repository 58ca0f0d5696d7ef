//! A node's logs on a disk that dies, forgets and fails: a crash at every change of the disk, a fault at every call.
//!
//! | part | what is run |
//! |---|---|
//! | short scripts ([`script::short`]) | once for each change of the disk, which a killed process or a power loss comes before; again with another crash during the start that follows; once for each call, which fails with `EIO`, or from which on the disk is full |
//! | the same | others flush and checkpoint before each rename by which a file is deleted, and the power goes a few steps later |
//! | the same | up to each of their steps; then the process is killed, or the power goes, or it ends in order, and the next start is on a disk without any room |
//! | long scripts | random steps on three partitions, with crashes and faults now and then; in every fourth on two log directories, between which logs move |
//! | known bugs | put back one by one ([`crate::storage::known_bugs`]): each must be found |
//!
//! What is held after each start is in [`check`]. After a fault what was acknowledged can still be read, nothing is
//! acknowledged that is not there, and the next start finds the log sound. A disk that is full is not given up, and goes on
//! when there is room, but where it refuses a sync, or a start. The list of call sites that were crashed and that
//! failed is printed; none may have been missed.
//!
//! `CRASH_SEEDS` says how many long scripts are run, from number `CRASH_FIRST_SEED` on, and how many times as many power losses;
//! `CRASH_CASE` runs one case, by the name that a failure gives it, and shows its steps. `scripts/simulate-crashes` runs many.

mod check;
mod model;
mod script;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use self::model::Role;
use self::script::Step;
use self::world::{Halt, World};
use crate::storage::known_bugs::{self, KnownBug};
use crate::storage::simulated_disk::{Call, CallSite, Coverage, Crash, Fault};

/// How many long scripts are run.
const SEEDS: u64 = 200;
/// How many steps each has.
const STEPS: usize = 50;
/// How many power losses a short script meets before each change.
const POWER_LOSSES: u64 = 1;

/// What happens in a run of a short script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// Before the change of this number; and, in a start afterwards, perhaps again.
    Crash {
        at: u64,
        crash: Crash,
        again: Option<u64>,
    },
    Fault {
        at: u64,
        fault: Fault,
    },
    /// Before the rename of this number by which a file is deleted, others flush and checkpoint; so many steps later the power goes.
    Others {
        at: u64,
        steps: usize,
    },
}

/// A run.
#[derive(Clone, Copy, Debug)]
enum Case {
    Short {
        script: usize,
        seed: u64,
        plan: Plan,
    },
    /// After so many steps of a short script the process ends, by a crash or in order, and the next one finds a disk without
    /// any room.
    FullStart {
        script: usize,
        seed: u64,
        at: usize,
        crash: Option<Crash>,
    },
    Long {
        seed: u64,
    },
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Case::Long { seed } => write!(f, "long.{seed}"),
            Case::Short { script, seed, plan } => match plan {
                Plan::Crash { at, crash, again: None } => write!(f, "{script}.{seed}.{crash:?}.{at}"),
                Plan::Crash { at, crash, again: Some(again) } => write!(f, "{script}.{seed}.{crash:?}.{at}.{again}"),
                Plan::Fault { at, fault } => write!(f, "{script}.{seed}.{fault:?}.{at}"),
                Plan::Others { at, steps } => write!(f, "{script}.{seed}.Others.{at}.{steps}"),
            },
            Case::FullStart { script, seed, at, crash: None } => write!(f, "{script}.{seed}.FullAfterEnd.{at}"),
            Case::FullStart { script, seed, at, crash: Some(crash) } => {
                write!(f, "{script}.{seed}.FullAfter{crash:?}.{at}")
            }
        }
    }
}

impl Case {
    fn parse(text: &str) -> Option<Case> {
        let fields: Vec<&str> = text.split('.').collect();
        if let ["long", seed] = fields[..] {
            return Some(Case::Long { seed: seed.parse().ok()? });
        }
        let (script, seed, at) =
            (fields.first()?.parse().ok()?, fields.get(1)?.parse().ok()?, fields.get(3)?.parse().ok()?);
        let again = fields.get(4).map(|again| again.parse()).transpose().ok()?;
        let short = |plan| Case::Short { script, seed, plan };
        let full_start = |crash| Case::FullStart { script, seed, at: at as usize, crash };
        Some(match *fields.get(2)? {
            "Kill" => short(Plan::Crash { at, crash: Crash::Kill, again }),
            "PowerLoss" => short(Plan::Crash { at, crash: Crash::PowerLoss, again }),
            "Error" => short(Plan::Fault { at, fault: Fault::Error }),
            "Full" => short(Plan::Fault { at, fault: Fault::Full }),
            "Others" => short(Plan::Others { at, steps: again? as usize }),
            "FullAfterEnd" => full_start(None),
            "FullAfterKill" => full_start(Some(Crash::Kill)),
            "FullAfterPowerLoss" => full_start(Some(Crash::PowerLoss)),
            _ => return None,
        })
    }

    fn run(self, says: bool) -> Result<Coverage, String> {
        let run = catch_unwind(AssertUnwindSafe(|| match self {
            Case::Short { script, seed, plan } => {
                run_short(script, seed, plan, says).map(|world| world.disk.coverage())
            }
            Case::FullStart { script, seed, at, crash } => {
                run_full_start(script, seed, at, crash, says).map(|(world, _)| world.disk.coverage())
            }
            Case::Long { seed } => run_long(seed, says),
        }));
        run.unwrap_or_else(|_| Err("a panic".to_owned())).map_err(|what| format!("{self}: {what}"))
    }
}

fn run_short(script: usize, seed: u64, plan: Plan, says: bool) -> Result<World, String> {
    let (_, role, steps) = script::short().swap_remove(script);
    let mut world = World::new(seed, &[role], script::directories(&steps));
    world.says = says;
    let crash = match plan {
        Plan::Crash { at, crash, .. } => {
            world.disk.die_after(Some(at));
            crash
        }
        Plan::Fault { at, fault } => {
            world.disk.fail_after(Some((at, fault)));
            if at.is_multiple_of(2) { Crash::Kill } else { Crash::PowerLoss }
        }
        Plan::Others { .. } => Crash::PowerLoss,
    };
    let again = match plan {
        Plan::Crash { again, .. } => again,
        Plan::Fault { .. } | Plan::Others { .. } => None,
    };
    let mut deaths = 0;
    let mut on_death = |world: &mut World| {
        world.crash(crash);
        deaths += 1;
        world.disk.die_after(again.filter(|_| deaths == 1));
    };
    let started = world.start();
    go_on(&mut world, started, &mut on_death)?;
    let (mut others, mut steps_left) = match plan {
        Plan::Others { at, steps } => (Some(at), Some(steps)),
        Plan::Crash { .. } | Plan::Fault { .. } => (None, None),
    };
    for step in steps {
        others = others.and_then(|at| world.let_in(at));
        let done = world.step(step);
        others = others.and_then(|_| world.still_awaited());
        go_on(&mut world, done, &mut on_death)?;
        if others.is_none()
            && let Some(left) = steps_left
        {
            steps_left = left.checked_sub(1);
            if left == 0 {
                let lost = world.step(Step::PowerLoss);
                go_on(&mut world, lost, &mut on_death)?;
            }
        }
    }
    end_well(&mut world, crash)?;
    Ok(world)
}

/// A start without any room: what it serves is what was there, and if it serves nothing, it has harmed nothing. Returns
/// whether all logs were open.
fn run_full_start(
    script: usize,
    seed: u64,
    at: usize,
    crash: Option<Crash>,
    says: bool,
) -> Result<(World, bool), String> {
    let (_, role, steps) = script::short().swap_remove(script);
    let mut world = World::new(seed, &[role], script::directories(&steps));
    world.says = says;
    in_order(world.start())?;
    steps.into_iter().take(at).try_for_each(|step| in_order(world.step(step)))?;
    match crash {
        Some(crash) => world.crash(crash),
        None => in_order(world.close())?,
    }
    world.disk.fail_after(Some((0, Fault::Full)));
    let mut on_death = |_: &mut World| unreachable!("nobody kills it");
    let started = world.start();
    let is_up = started.is_ok();
    go_on(&mut world, started, &mut on_death)?;
    if is_up {
        let read = world.check_reads();
        go_on(&mut world, read, &mut on_death)?;
        let append = Step::Append { partition: 0, who: 2, count: 2, transactional: false };
        for step in [append, Step::Flush { partition: 0 }, Step::Roll { partition: 0 }, append] {
            let done = world.step(step);
            go_on(&mut world, done, &mut on_death)?;
        }
    }
    end_well(&mut world, crash.unwrap_or(Crash::Kill))?;
    Ok((world, is_up))
}

/// Where nothing goes wrong.
fn in_order(what: Result<(), Halt>) -> Result<(), String> {
    match what {
        Ok(()) => Ok(()),
        Err(Halt::Violation(what)) => Err(what),
        Err(halt) => Err(format!("{halt:?} on a sound disk")),
    }
}

/// What follows a step: after a crash the next start, after a fault a look at what is there.
fn go_on(world: &mut World, mut outcome: Result<(), Halt>, on_death: &mut dyn FnMut(&mut World)) -> Result<(), String> {
    loop {
        match outcome {
            Ok(()) => return Ok(()),
            Err(Halt::Violation(what)) => return Err(what),
            Err(Halt::Failed) => match world.check_reads() {
                Err(Halt::Violation(what)) => return Err(what),
                Ok(()) | Err(_) => return Ok(()),
            },
            Err(Halt::Dead) => on_death(world),
        }
        outcome = world.start();
    }
}

/// The disk is sound from here on: what is there must do.
fn end_well(world: &mut World, crash: Crash) -> Result<(), String> {
    world.disk.die_after(None);
    // Every other one goes on, where there was no room and there is some again.
    if world.random.random_bool(0.5) {
        match world.recover() {
            Ok(_) | Err(Halt::Failed) => {}
            Err(Halt::Violation(what)) => return Err(what),
            Err(Halt::Dead) => return Err("dead on a sound disk".to_owned()),
        }
    }
    let has_failed = world.disk.failed_at().is_some();
    let crash = if world.can_be_killed() { crash } else { Crash::PowerLoss };
    world.disk.make_room();
    if has_failed {
        world.crash(crash);
        in_order(world.start())?;
    }
    for partition in 0..world.partitions.len() {
        let append = Step::Append { partition, who: 2, count: 2, transactional: false };
        for step in
            [append, Step::Roll { partition }, append, Step::Flush { partition }, Step::Retry { partition, who: 2 }]
        {
            in_order(world.step(step))?;
        }
    }
    for step in [Step::PowerLoss, Step::Background { ms: 50 }, Step::Restart, Step::Restart] {
        in_order(world.step(step))?;
    }
    Ok(())
}

fn run_long(seed: u64, says: bool) -> Result<Coverage, String> {
    let mut random = SmallRng::seed_from_u64(seed.wrapping_mul(7919) + 1);
    let roles = [Role::Leader, Role::Compacted, Role::Follower];
    // In every fourth one logs are moved.
    let directories = if seed % 4 == 3 { 2 } else { 1 };
    let mut world = World::new(seed, &roles, directories);
    world.says = says;
    let mut on_death = {
        let mut random = SmallRng::seed_from_u64(seed);
        move |world: &mut World| {
            let is_kill = random.random_bool(0.5) && world.can_be_killed();
            world.crash(if is_kill { Crash::Kill } else { Crash::PowerLoss });
            world.disk.die_after(random.random_bool(0.3).then(|| random.random_range(0..30)));
        }
    };
    let started = world.start();
    go_on(&mut world, started, &mut on_death)?;
    for step in script::random(&mut random, &roles, STEPS, directories) {
        if random.random_bool(0.08) {
            world.disk.die_after(Some(random.random_range(0..25)));
        }
        if random.random_bool(0.1) {
            world.let_in(random.random_range(0..12));
        }
        if random.random_bool(0.015) {
            let fault = if random.random_bool(0.5) { Fault::Error } else { Fault::Full };
            world.disk.fail_after(Some((random.random_range(0..40), fault)));
        }
        let done = world.step(step);
        world.still_awaited();
        go_on(&mut world, done, &mut on_death)?;
        if random.random_bool(0.3) {
            let recovered = world.recover().map(drop);
            go_on(&mut world, recovered, &mut on_death)?;
        }
        if world.disk.failed_at().is_some() && random.random_bool(0.5) {
            let crash = if world.can_be_killed() && random.random_bool(0.5) { Crash::Kill } else { Crash::PowerLoss };
            world.disk.make_room();
            world.crash(crash);
            let started = world.start();
            go_on(&mut world, started, &mut on_death)?;
        }
    }
    let crash = if random.random_bool(0.5) { Crash::Kill } else { Crash::PowerLoss };
    end_well(&mut world, crash)?;
    Ok(world.disk.coverage())
}

/// Runs of the short scripts: every change with every crash, every call with every fault; at each call site of a script at most
/// so many times.
fn short_cases(power_losses: u64, most_at_a_site: usize) -> (Vec<Case>, BTreeSet<CallSite>) {
    let (mut cases, mut sites) = (Vec::new(), BTreeSet::new());
    for script in 0..script::short().len() {
        let (_, role, steps) = script::short().swap_remove(script);
        let mut world = World::new(0, &[role], script::directories(&steps));
        world.disk.begin_trace();
        let whole = world.start().and_then(|()| steps.into_iter().try_for_each(|step| world.step(step)));
        whole.unwrap_or_else(|halt| panic!("script {script}: {halt:?}"));
        let mut met: BTreeMap<CallSite, usize> = BTreeMap::new();
        let mut change = 0;
        let mut deletions = 0;
        for (call, site) in (0..).zip(world.disk.take_trace()) {
            let at = change;
            change += u64::from(site.call.is_change());
            let (is_change, needs_room) = (site.call.is_change(), site.call.needs_room());
            // Several directories are loaded and closed side by side: which call comes when is another each time.
            let is_side_by_side = site.activity.starts_with("start") || site.activity == "shutdown";
            if !(world.has_several_directories() && is_side_by_side) {
                sites.insert(site.clone());
            }
            if site.call == Call::Rename && site.file.ends_with(".deleted") {
                let others = |(steps, seed)| Case::Short { script, seed, plan: Plan::Others { at: deletions, steps } };
                cases.extend(
                    (0..4).flat_map(|steps| (0..power_losses.min(3)).map(move |seed| (steps, seed))).map(others),
                );
                deletions += 1;
            }
            let times = met.entry(site).or_default();
            *times += 1;
            if *times > most_at_a_site {
                continue;
            }
            for fault in [Fault::Error, Fault::Full].into_iter().filter(|fault| *fault == Fault::Error || needs_room) {
                cases.push(Case::Short { script, seed: 0, plan: Plan::Fault { at: call, fault } });
            }
            if is_change {
                let mut add = |seed, crash, again| {
                    cases.push(Case::Short { script, seed, plan: Plan::Crash { at, crash, again } });
                };
                add(0, Crash::Kill, None);
                add(0, Crash::Kill, Some(at % 11));
                // Of these the first has the disk of the run above, so that it comes where it should.
                (0..power_losses).for_each(|seed| add(seed, Crash::PowerLoss, None));
                (0..power_losses).for_each(|seed| add(seed, Crash::PowerLoss, Some((at + seed * 3) % 13)));
            }
        }
    }
    (cases, sites)
}

/// Runs all of them, on a few threads; gives what failed, at most a few.
fn run_all(cases: Vec<Case>) -> (Coverage, Vec<String>) {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(4);
    let coverage = Mutex::new(Coverage::default());
    let failures = Mutex::new(Vec::new());
    let cases = Mutex::new(cases.into_iter());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut covered = Coverage::default();
                loop {
                    let Some(case) = cases.lock().next().filter(|_| failures.lock().len() < 20) else { break };
                    match case.run(false) {
                        Ok(run) => covered.add(&run),
                        Err(what) => failures.lock().push(what),
                    }
                }
                coverage.lock().add(&covered);
            });
        }
    });
    (coverage.into_inner(), failures.into_inner())
}

fn seeds() -> u64 {
    number("CRASH_SEEDS").unwrap_or(SEEDS)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

fn report(failures: &[String]) {
    assert!(failures.is_empty(), "run one again with CRASH_CASE=NAME:\n{}", failures.join("\n"));
}

#[test]
fn nothing_is_lost_by_a_crash_at_any_change_nor_a_fault_at_any_call() {
    if let Ok(name) = std::env::var("CRASH_CASE") {
        let case = Case::parse(&name).unwrap_or_else(|| panic!("no case {name}"));
        let coverage = case.run(true).unwrap_or_else(|what| panic!("{what}"));
        println!("passed, {} call sites", coverage.sites.len());
        return;
    }
    let power_losses = POWER_LOSSES.max(seeds() / 1000);
    // All of them only where there is time.
    let most_at_a_site = if seeds() > SEEDS { usize::MAX } else { 1 };
    let (cases, sites) = short_cases(power_losses, most_at_a_site);
    println!("{} runs of short scripts", cases.len());
    let (coverage, failures) = run_all(cases);
    println!(
        "{:<24} {:<12} {:<40} {:>8} {:>6} {:>6} {:>6} {:>6}",
        "while", "call", "file", "passed", "kills", "power", "EIO", "ENOSPC"
    );
    let mut missed = BTreeSet::new();
    for (site, hits) in &coverage.sites {
        println!(
            "{:<24} {:<12} {:<40} {:>8} {:>6} {:>6} {:>6} {:>6}",
            site.activity,
            format!("{:?}", site.call),
            site.file,
            hits.passed,
            hits.killed,
            hits.power_lost,
            hits.errors,
            hits.full
        );
        let is_crashed = !site.call.is_change() || hits.killed > 0 && hits.power_lost > 0;
        let is_refused = !site.call.needs_room() || hits.full > 0;
        if sites.contains(site) && (!is_crashed || hits.errors == 0 || !is_refused) {
            missed.insert(site.to_string());
        }
    }
    println!(
        "{} call sites, {} of them on the way of the scripts, {} of these missed: {missed:#?}",
        coverage.sites.len(),
        sites.len(),
        missed.len()
    );
    report(&failures);
    assert!(missed.is_empty(), "missed: {missed:#?}");
}

#[test]
fn a_start_on_a_full_disk_harms_nothing() {
    if std::env::var("CRASH_CASE").is_ok() {
        return;
    }
    let (mut failures, mut up, mut all) = (Vec::new(), BTreeMap::<String, usize>::new(), 0);
    for (script, (_, _, steps)) in script::short().into_iter().enumerate() {
        for at in 0..=steps.len() {
            for crash in [None, Some(Crash::Kill), Some(Crash::PowerLoss)] {
                for seed in 0..if crash == Some(Crash::PowerLoss) { 4 } else { 1 } {
                    let case = Case::FullStart { script, seed, at, crash };
                    let run = catch_unwind(|| run_full_start(script, seed, at, crash, false));
                    match run.unwrap_or_else(|_| Err("a panic".to_owned())) {
                        Ok((_, is_up)) => *up.entry(format!("{crash:?}")).or_default() += usize::from(is_up),
                        Err(what) => failures.push(format!("{case}: {what}")),
                    }
                    all += 1;
                }
            }
        }
    }
    println!("{all} starts on a full disk; of these all logs were open, by the end before: {up:?}");
    report(&failures);
}

#[test]
fn long_scripts_with_crashes_and_faults_now_and_then() {
    if std::env::var("CRASH_CASE").is_ok() {
        return;
    }
    let first = number("CRASH_FIRST_SEED").unwrap_or(0);
    let (coverage, failures) = run_all((first..first + seeds()).map(|seed| Case::Long { seed }).collect());
    let count = |hits: fn(&crate::storage::simulated_disk::Hits) -> u64| coverage.sites.values().map(hits).sum::<u64>();
    println!(
        "{} long scripts: {} calls, {} kills, {} power losses in a call; {} errors, {} refusals for want of room",
        seeds(),
        count(|hits| hits.passed),
        count(|hits| hits.killed),
        count(|hits| hits.power_lost),
        count(|hits| hits.errors),
        count(|hits| hits.full)
    );
    report(&failures);
}

#[test]
fn known_bugs_that_are_put_back_are_found() {
    if std::env::var("CRASH_CASE").is_ok() {
        return;
    }
    const BUGS: [KnownBug; 25] = [
        KnownBug::CopyNotSynced,
        KnownBug::LogRemovedBeforeExchange,
        KnownBug::SupersededLogSetAside,
        KnownBug::NoRoomFails,
        KnownBug::DeletedNamesNotSynced,
        KnownBug::StartLeftToNames,
        KnownBug::FailedSyncRepeated,
        KnownBug::RecoveryPointNotLowered,
        KnownBug::RenameNotSynced,
        KnownBug::NewNamesNotSynced,
        KnownBug::SealedSegmentNotSynced,
        KnownBug::CheckpointBeforeFlush,
        KnownBug::MarkerBeforeFlush,
        KnownBug::MarkerRemovalNotSynced,
        KnownBug::TruncationNotSynced,
        KnownBug::SourcesBeforeSwap,
        KnownBug::CleanedNotSynced,
        KnownBug::SnapshotTrustedAfterTruncation,
        KnownBug::IndexTrustedAfterCrash,
        KnownBug::IndexRebuiltInPlace,
        KnownBug::RebuiltIndexNotSynced,
        KnownBug::SurvivorsCountAsSynced,
        KnownBug::GapNotNoticed,
        KnownBug::EpochNotDurable,
        KnownBug::StaleCheckpointsKept,
    ];
    let cases: Vec<Case> = short_cases(4, 3).0.into_iter().chain((0..400).map(|seed| Case::Long { seed })).collect();
    // Where a bug shows itself at all.
    let concerns = |bug: KnownBug, case: &Case| match (bug, case) {
        (KnownBug::NoRoomFails, Case::Short { plan: Plan::Fault { fault, .. }, .. }) => *fault == Fault::Full,
        (KnownBug::FailedSyncRepeated, Case::Short { plan: Plan::Fault { fault, .. }, .. }) => *fault == Fault::Error,
        (KnownBug::NoRoomFails | KnownBug::FailedSyncRepeated, _) => false,
        (_, case) => !matches!(case, Case::Short { plan: Plan::Fault { .. }, .. }),
    };
    let found = Mutex::new(Vec::new());
    let bugs = Mutex::new(BUGS.into_iter());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()).min(4) {
            scope.spawn(|| {
                loop {
                    let Some(bug) = bugs.lock().next() else { break };
                    known_bugs::put_back(Some(bug));
                    // A part of the cases at a time, from everywhere.
                    let order = (0..17).flat_map(|part| cases.iter().skip(part).step_by(17));
                    let order = order.filter(|case| concerns(bug, case));
                    let at = order.enumerate().find_map(|(n, case)| Some((n, case.run(false).err()?)));
                    known_bugs::put_back(None);
                    match &at {
                        Some((runs, what)) => println!("{bug:?}: found in run {runs}: {what}"),
                        None => println!("{bug:?}: NOT FOUND in {} runs", cases.len()),
                    }
                    found.lock().push((bug, at.is_some()));
                }
            });
        }
    });
    let found = found.into_inner();
    let missed: Vec<KnownBug> = found.iter().filter(|(_, is_found)| !is_found).map(|(bug, _)| *bug).collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}
