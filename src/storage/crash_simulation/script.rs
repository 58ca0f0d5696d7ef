//! What a simulated node is told to do: short scripts, of which every step is crashed, and long random ones.

use rand::RngExt as _;
use rand::rngs::SmallRng;

use crate::storage::crash_simulation::model::Role;

/// A step. Partitions are given by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A batch of a producer, or of none (the last one), perhaps in a transaction.
    Append {
        partition: usize,
        who: usize,
        count: i32,
        transactional: bool,
    },
    /// The marker of a producer's transaction, if one is open.
    EndTransaction {
        partition: usize,
        who: usize,
        committed: bool,
    },
    /// A producer sends its last batch again.
    Retry {
        partition: usize,
        who: usize,
    },
    Roll {
        partition: usize,
    },
    Flush {
        partition: usize,
    },
    /// A flush is asked for, and answered by a job.
    FlushLater {
        partition: usize,
    },
    Retention {
        partition: usize,
    },
    /// Moves the log's start up to so many batches before its end.
    DeleteRecords {
        partition: usize,
        left: usize,
    },
    /// Cuts off so many batches.
    Truncate {
        partition: usize,
        batches: usize,
    },
    StartAnew {
        partition: usize,
        ahead: i64,
    },
    /// A leader in a new epoch.
    NewEpoch {
        partition: usize,
    },
    Clean {
        partition: usize,
    },
    /// The indexes of all segments that take no more are taken for wrong, and built anew by a job.
    DistrustIndexes {
        partition: usize,
    },
    /// The topic is deleted, and made again.
    Recreate {
        partition: usize,
    },
    /// A log begins to move to the other directory.
    Move {
        partition: usize,
    },
    /// What is there is copied, if it is being moved.
    Copy {
        partition: usize,
    },
    /// The copy is completed, and takes the log's place.
    HandOver {
        partition: usize,
        /// It takes records before the log is removed.
        meanwhile: bool,
    },
    /// The move ends, and the copy goes.
    CallOff {
        partition: usize,
    },
    CheckpointRecoveryPoints,
    CheckpointStarts,
    CheckpointOthers,
    /// The jobs that wait are done, and those that are due when so much time has passed.
    Background {
        ms: u64,
    },
    /// An orderly restart.
    Restart,
    /// As that, but somebody removes the indexes before the start.
    RestartWithoutIndexes {
        partition: usize,
    },
    /// The process is killed, or the power goes, between two steps.
    Kill,
    PowerLoss,
}

use Step::*;

impl Step {
    /// As the coverage list has it.
    pub fn name(self) -> &'static str {
        match self {
            Append { .. } | EndTransaction { .. } | Retry { .. } => "append",
            Roll { .. } => "roll",
            Flush { .. } | FlushLater { .. } => "flush",
            Retention { .. } => "retention",
            DeleteRecords { .. } => "delete records",
            Truncate { .. } => "truncate",
            StartAnew { .. } => "start anew",
            NewEpoch { .. } => "new epoch",
            Clean { .. } => "compaction",
            DistrustIndexes { .. } => "distrust indexes",
            Recreate { .. } => "delete topic, make anew",
            Move { .. } => "begin a move",
            Copy { .. } => "copy",
            HandOver { .. } => "hand over",
            CallOff { .. } => "call a move off",
            CheckpointRecoveryPoints | CheckpointStarts | CheckpointOthers => "checkpoint",
            Background { .. } => "jobs",
            Restart | RestartWithoutIndexes { .. } | Kill | PowerLoss => "shutdown",
        }
    }
}

/// How many log directories these steps want.
pub fn directories(steps: &[Step]) -> usize {
    if steps.iter().any(|step| matches!(step, Move { .. })) { 2 } else { 1 }
}

fn append(who: usize, count: i32) -> Step {
    Append { partition: 0, who, count, transactional: false }
}

fn in_transaction(who: usize, count: i32) -> Step {
    Append { partition: 0, who, count, transactional: true }
}

const DONE: Step = Background { ms: 0 };

/// The short scripts: together they do everything.
pub fn short() -> Vec<(&'static str, Role, Vec<Step>)> {
    let p = 0;
    let commit = |who| EndTransaction { partition: p, who, committed: true };
    let abort = |who| EndTransaction { partition: p, who, committed: false };
    vec![
        (
            "append, roll, flush",
            Role::Leader,
            vec![
                append(2, 3),
                append(3, 2),
                Flush { partition: p },
                CheckpointRecoveryPoints,
                append(2, 2),
                Roll { partition: p },
                append(2, 1),
                FlushLater { partition: p },
                DONE,
                CheckpointRecoveryPoints,
                Retry { partition: p, who: 2 },
                append(3, 4),
                Roll { partition: p },
                append(2, 4),
            ],
        ),
        (
            "transactions",
            Role::Leader,
            vec![
                in_transaction(0, 2),
                append(2, 1),
                in_transaction(1, 2),
                abort(0),
                Roll { partition: p },
                in_transaction(0, 1),
                Flush { partition: p },
                CheckpointRecoveryPoints,
                commit(1),
                abort(0),
                DONE,
                in_transaction(1, 1),
                abort(1),
                in_transaction(0, 1),
            ],
        ),
        (
            "truncation",
            Role::Follower,
            vec![
                append(2, 3),
                NewEpoch { partition: p },
                in_transaction(0, 2),
                append(3, 3),
                Roll { partition: p },
                append(2, 2),
                abort(0),
                Flush { partition: p },
                CheckpointRecoveryPoints,
                Truncate { partition: p, batches: 1 },
                append(2, 2),
                Truncate { partition: p, batches: 3 },
                DONE,
                NewEpoch { partition: p },
                append(3, 2),
                Roll { partition: p },
                append(2, 2),
                Flush { partition: p },
                Restart,
                append(2, 1),
                Truncate { partition: p, batches: 2 },
                append(2, 1),
            ],
        ),
        (
            "start anew",
            Role::Follower,
            vec![
                append(2, 3),
                Roll { partition: p },
                append(2, 3),
                Flush { partition: p },
                CheckpointRecoveryPoints,
                StartAnew { partition: p, ahead: 5 },
                append(2, 2),
                Flush { partition: p },
                CheckpointRecoveryPoints,
                Background { ms: 50 },
                append(3, 1),
            ],
        ),
        (
            "retention, delete records",
            Role::Leader,
            vec![
                append(2, 3),
                Roll { partition: p },
                in_transaction(0, 3),
                abort(0),
                Roll { partition: p },
                append(3, 3),
                append(2, 1),
                Flush { partition: p },
                DONE,
                CheckpointRecoveryPoints,
                DeleteRecords { partition: p, left: 2 },
                CheckpointStarts,
                append(2, 1),
                Retention { partition: p },
                DONE,
                CheckpointStarts,
                DeleteRecords { partition: p, left: 0 },
                CheckpointStarts,
                Retention { partition: p },
                Background { ms: 50 },
                append(2, 1),
            ],
        ),
        (
            "a new epoch, then a truncation below what was noted",
            Role::Follower,
            vec![
                append(2, 3),
                Restart,
                NewEpoch { partition: p },
                append(3, 3),
                Roll { partition: p },
                append(2, 3),
                append(3, 2),
                Flush { partition: p },
                CheckpointRecoveryPoints,
                append(2, 1),
                Truncate { partition: p, batches: 3 },
                append(2, 2),
                append(3, 2),
                Roll { partition: p },
                append(2, 3),
                append(3, 1),
                append(2, 1),
                append(3, 1),
            ],
        ),
        (
            "retention after a restart, and nothing else",
            Role::Leader,
            vec![
                append(2, 3),
                Roll { partition: p },
                append(3, 3),
                Roll { partition: p },
                append(2, 2),
                Roll { partition: p },
                append(3, 1),
                Restart,
                DeleteRecords { partition: p, left: 1 },
                Retention { partition: p },
                Restart,
                CheckpointStarts,
                append(2, 1),
            ],
        ),
        (
            "compaction",
            Role::Compacted,
            vec![
                append(2, 4),
                in_transaction(0, 2),
                abort(0),
                Roll { partition: p },
                append(3, 4),
                in_transaction(1, 2),
                commit(1),
                Roll { partition: p },
                append(2, 4),
                Clean { partition: p },
                CheckpointOthers,
                append(2, 2),
                Roll { partition: p },
                DONE,
                Clean { partition: p },
                Background { ms: 50 },
                append(2, 1),
                CheckpointRecoveryPoints,
                CheckpointOthers,
            ],
        ),
        (
            "restarts",
            Role::Leader,
            vec![
                append(2, 2),
                Restart,
                append(2, 2),
                in_transaction(0, 1),
                Roll { partition: p },
                append(3, 2),
                Restart,
                abort(0),
                Kill,
                append(2, 1),
                Flush { partition: p },
                CheckpointRecoveryPoints,
                Restart,
            ],
        ),
        (
            "a killed process, then no power",
            Role::Leader,
            vec![
                append(2, 2),
                Roll { partition: p },
                append(2, 2),
                Kill,
                Flush { partition: p },
                CheckpointRecoveryPoints,
                PowerLoss,
                append(2, 2),
                PowerLoss,
                Flush { partition: p },
                append(2, 1),
            ],
        ),
        (
            "indexes that are built anew",
            Role::Leader,
            vec![
                append(2, 4),
                append(3, 3),
                append(2, 2),
                append(3, 4),
                Roll { partition: p },
                append(2, 3),
                append(3, 2),
                append(2, 4),
                Roll { partition: p },
                append(2, 1),
                Flush { partition: p },
                DONE,
                CheckpointRecoveryPoints,
                DistrustIndexes { partition: p },
                DONE,
                append(3, 2),
                DistrustIndexes { partition: p },
                Restart,
                DistrustIndexes { partition: p },
                DONE,
                append(2, 2),
                RestartWithoutIndexes { partition: p },
                append(3, 2),
            ],
        ),
        (
            "a topic of the same name",
            Role::Leader,
            vec![
                append(2, 4),
                append(2, 4),
                Flush { partition: p },
                DeleteRecords { partition: p, left: 1 },
                CheckpointRecoveryPoints,
                CheckpointStarts,
                Recreate { partition: p },
                append(2, 1),
                append(3, 1),
                Background { ms: 50 },
                append(2, 1),
                PowerLoss,
                append(2, 1),
            ],
        ),
        (
            "moves between log directories",
            Role::Leader,
            vec![
                append(2, 3),
                in_transaction(0, 2),
                Roll { partition: p },
                append(3, 3),
                CheckpointRecoveryPoints,
                Move { partition: p },
                append(2, 2),
                Copy { partition: p },
                Flush { partition: p },
                append(3, 1),
                FlushLater { partition: p },
                HandOver { partition: p, meanwhile: true },
                append(2, 2),
                Flush { partition: p },
                CheckpointRecoveryPoints,
                Background { ms: 50 },
                abort(0),
                Move { partition: p },
                Copy { partition: p },
                Restart,
                append(2, 1),
                DeleteRecords { partition: p, left: 3 },
                HandOver { partition: p, meanwhile: false },
                append(2, 1),
                Background { ms: 50 },
            ],
        ),
        (
            "a follower that moves, and is cut meanwhile",
            Role::Follower,
            vec![
                append(2, 3),
                NewEpoch { partition: p },
                append(3, 3),
                Roll { partition: p },
                append(2, 2),
                append(3, 2),
                Move { partition: p },
                Copy { partition: p },
                Truncate { partition: p, batches: 2 },
                append(2, 3),
                HandOver { partition: p, meanwhile: true },
                Truncate { partition: p, batches: 2 },
                append(2, 1),
                Flush { partition: p },
                Move { partition: p },
                Copy { partition: p },
                CallOff { partition: p },
                Background { ms: 50 },
                append(2, 1),
            ],
        ),
    ]
}

/// A long script for partitions of these roles.
pub fn random(random: &mut SmallRng, roles: &[Role], steps: usize, directories: usize) -> Vec<Step> {
    let mut step = || match directories > 1 && random.random_bool(0.15) {
        true => random_move(random, roles),
        false => random_step(random, roles),
    };
    (0..steps).map(|_| step()).collect()
}

fn random_move(random: &mut SmallRng, roles: &[Role]) -> Step {
    let partition = random.random_range(0..roles.len());
    match random.random_range(0..20) {
        0..8 => Move { partition },
        8..12 => Copy { partition },
        12..19 => HandOver { partition, meanwhile: random.random_bool(0.5) },
        _ => CallOff { partition },
    }
}

fn random_step(random: &mut SmallRng, roles: &[Role]) -> Step {
    let partition = random.random_range(0..roles.len());
    let who = random.random_range(0..4);
    match random.random_range(0..100) {
        0..39 => {
            let transactional = who < 2 && random.random_bool(0.6);
            Append { partition, who, count: random.random_range(1..5), transactional }
        }
        39..40 => DistrustIndexes { partition },
        40..48 => EndTransaction { partition, who: who % 2, committed: random.random_bool(0.5) },
        48..50 => Retry { partition, who: who % 3 },
        50..55 => Roll { partition },
        55..60 => Flush { partition },
        60..63 => FlushLater { partition },
        63..68 => CheckpointRecoveryPoints,
        68..71 => CheckpointStarts,
        71..73 => CheckpointOthers,
        73..83 => Background { ms: [0, 0, 10, 50][random.random_range(0..4)] },
        83..93 => match (roles[partition], random.random_range(0..10)) {
            (Role::Leader, 0..5) => DeleteRecords { partition, left: random.random_range(0..6) },
            (Role::Leader, 5..9) => Retention { partition },
            (Role::Leader, _) => Recreate { partition },
            (Role::Compacted, 0..8) => Clean { partition },
            (Role::Compacted, _) => Truncate { partition, batches: random.random_range(1..3) },
            (Role::Follower, 0..6) => Truncate { partition, batches: random.random_range(1..5) },
            (Role::Follower, 6..8) => StartAnew { partition, ahead: random.random_range(0..9) },
            (Role::Follower, _) => NewEpoch { partition },
        },
        93..95 => NewEpoch { partition },
        95..96 => Restart,
        96..97 => [Restart, RestartWithoutIndexes { partition }][random.random_range(0..2)],
        97..98 => Kill,
        98..99 => PowerLoss,
        _ => Retention { partition },
    }
}
