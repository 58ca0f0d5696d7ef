//! Runs a transcript: a text file beside this one, of commands (`> ...`) with what comes of each below it.
//!
//! ```text
//! > join a range:m            client a joins, with metadata m for the assignor range; further words: v=4 id=a#1
//!                             instance=i type=connect session=10s rebalance=60s reason=text
//! > sync a#1 gen=1 a#1:x      member a#1 gives the assignments (the leader) or asks for its own
//! > heartbeat a#1 gen=1
//! > leave a#1 @i a#2@i        members by id, by instance id, by both
//! > advance 3s
//! > fail                      from here on nothing can be appended; `> mend` ends it
//! > set max-size 2            or initial-delay 3s
//! > reload                    another broker reads the log
//! > show                      the group as it is
//!
//! < a#1: …                    an answer to a JoinGroup or SyncGroup that waited, or did not have to
//! log …                       a record that was appended
//! [Stable]                    the state, when it changed
//! ```
//!
//! `a#1` is the member id that client `a` was given when the first UUID was drawn. With `UPDATE_TRANSCRIPTS` set the
//! files are written anew: read the difference.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest};
use kafka_protocol::messages::{JoinGroupResponse, SyncGroupResponse};
use kafka_protocol::protocol::StrBytes;

use crate::config::BrokerConfig;
use crate::coordinator::group::records::{GroupMetadataValue, GroupRecord};
use crate::coordinator::group::{DeferredReply, Group, GroupShard, RequestContext};
use crate::coordinator::shard::harness::Harness;
use crate::coordinator::shard::{CoordinatorError, ReplyTo};
use crate::metadata::image::MetadataImage;
use crate::protocol::ErrorCode;

const GROUP: &str = "g";

pub fn check(name: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("src/coordinator/group/classic/tests/transcripts")
        .join(format!("{name}.txt"));
    let expected = std::fs::read_to_string(&path).expect("the transcript");
    let mut scene = Scene::new();
    let mut written = String::new();
    for line in expected.lines() {
        if line.starts_with('#') || line.is_empty() {
            writeln!(written, "{line}").unwrap();
        } else if let Some(command) = line.strip_prefix("> ") {
            writeln!(written, "{line}").unwrap();
            for outcome in scene.run(command) {
                writeln!(written, "{outcome}").unwrap();
            }
        }
    }
    if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
        std::fs::write(&path, &written).expect("the transcript is written");
    }
    assert!(expected == written, "{} is not what happens, which is:\n{written}", path.display());
}

struct Scene {
    harness: Harness<GroupShard>,
    state: &'static str,
    /// Who asked, by the caller's name.
    callers: BTreeMap<ReplyTo, String>,
    outcome: Vec<String>,
}

impl Scene {
    fn new() -> Scene {
        let harness = Harness::new(GroupShard::default(), MetadataImage::empty(), BrokerConfig::default());
        Scene { harness, state: "", callers: BTreeMap::new(), outcome: Vec::new() }
    }

    fn run(&mut self, command: &str) -> Vec<String> {
        let mut words = command.split_whitespace();
        let verb = words.next().expect("a command");
        let words: Vec<&str> = words.collect();
        match verb {
            "join" => self.join(&words),
            "sync" => self.sync(&words),
            "heartbeat" => self.heartbeat(&words),
            "leave" => self.leave(&words),
            "advance" => self.harness.advance(duration(words[0])),
            "fail" => self.harness.append_error = Some(CoordinatorError::NotCoordinator),
            "mend" => self.harness.append_error = None,
            "set" => self.set(words[0], words[1]),
            "reload" => {
                self.harness.reload(GroupShard::default());
                self.callers.clear();
            }
            "show" => self.show(),
            other => panic!("no command {other}"),
        }
        self.note_replies();
        for record in self.harness.take_records() {
            self.outcome.push(record_text(&record));
        }
        let state = match self.harness.shard.groups.get(GROUP) {
            Some(Group::Classic(group)) => group.state_name(),
            Some(Group::Consumer(_)) => "a consumer group",
            None => "gone",
        };
        if std::mem::replace(&mut self.state, state) != state {
            self.outcome.push(format!("[{state}]"));
        }
        std::mem::take(&mut self.outcome)
    }

    fn caller(&mut self, name: &str) -> ReplyTo {
        let caller = ReplyTo(self.callers.last_key_value().map_or(1, |(last, _)| last.0 + 1));
        self.callers.insert(caller, name.to_owned());
        caller
    }

    fn join(&mut self, words: &[&str]) {
        let options = Options::new(&words[1..]);
        let member_id = options.get("id").map(expand).unwrap_or_default();
        let caller = self.caller(options.get("id").unwrap_or(words[0]));
        let context = context(options.version(9), words[0]);
        let protocols = options.pairs().map(|(name, metadata)| {
            JoinGroupRequestProtocol::default().with_name(text(name)).with_metadata(bytes(metadata))
        });
        let request = JoinGroupRequest::default()
            .with_group_id(text(GROUP).into())
            .with_member_id(text(&member_id))
            .with_group_instance_id(options.get("instance").map(text))
            .with_protocol_type(text(options.get("type").unwrap_or("test")))
            .with_protocols(protocols.collect())
            .with_session_timeout_ms(millis(options.get("session").unwrap_or("10s")))
            .with_rebalance_timeout_ms(millis(options.get("rebalance").unwrap_or("60s")))
            .with_reason(options.get("reason").map(text));
        let done = self.harness.step(|shard, step| shard.join_group(step, &context, request, caller));
        self.note_failure(caller, done);
    }

    fn sync(&mut self, words: &[&str]) {
        let options = Options::new(&words[1..]);
        let caller = self.caller(words[0]);
        let assignments = options.pairs().map(|(member, assignment)| {
            SyncGroupRequestAssignment::default()
                .with_member_id(text(&expand(member)))
                .with_assignment(bytes(assignment))
        });
        let request = SyncGroupRequest::default()
            .with_group_id(text(GROUP).into())
            .with_member_id(text(&expand(words[0])))
            .with_generation_id(options.generation())
            .with_group_instance_id(options.get("instance").map(text))
            .with_protocol_type(options.get("type").map(text))
            .with_protocol_name(options.get("protocol").map(text))
            .with_assignments(assignments.collect());
        let done = self.harness.step(|shard, step| shard.sync_group(step, request, caller));
        self.note_failure(caller, done);
    }

    fn heartbeat(&mut self, words: &[&str]) {
        let options = Options::new(&words[1..]);
        let request = HeartbeatRequest::default()
            .with_group_id(text(GROUP).into())
            .with_member_id(text(&expand(words[0])))
            .with_group_instance_id(options.get("instance").map(text))
            .with_generation_id(options.generation());
        let response = self.harness.step(|shard, step| shard.heartbeat(step, &request));
        self.outcome.push(error_name(response.expect("a heartbeat writes nothing").error_code));
    }

    fn leave(&mut self, words: &[&str]) {
        let members = words.iter().map(|word| {
            let (member_id, instance) = word.split_once('@').map_or((*word, None), |(id, name)| (id, Some(name)));
            MemberIdentity::default()
                .with_member_id(text(&expand(member_id)))
                .with_group_instance_id(instance.map(text))
        });
        let request = LeaveGroupRequest::default().with_group_id(text(GROUP).into()).with_members(members.collect());
        match self.harness.step(|shard, step| shard.leave_group(step, request)) {
            Ok(response) => {
                assert_eq!(response.error_code, 0);
                let members = response.members.iter().map(|member| error_name(member.error_code));
                self.outcome.push(members.collect::<Vec<_>>().join(" "));
            }
            Err(error) => self.outcome.push(format!("failed: {}", error.code().name())),
        }
    }

    fn set(&mut self, key: &str, value: &str) {
        let mut config = (*self.harness.config).clone();
        match key {
            "max-size" => config.group_max_size = value.parse().unwrap(),
            "initial-delay" => config.group_initial_rebalance_delay_ms = millis(value),
            other => panic!("no setting {other}"),
        }
        self.harness.config = config.into();
    }

    fn show(&mut self) {
        let Some(Group::Classic(group)) = self.harness.shard.groups.get(GROUP) else { return };
        self.outcome.push(shorten(&format!(
            "generation {}, type {:?}, protocol {:?}, leader {:?}",
            group.generation_id(),
            group.protocol_type(),
            group.protocol_name().unwrap_or_default(),
            group.leader_id().unwrap_or_default()
        )));
        for member in group.members() {
            let protocols: Vec<String> = member
                .protocols
                .iter()
                .map(|protocol| format!("{}:{}", protocol.name, String::from_utf8_lossy(&protocol.metadata)))
                .collect();
            let instance = member.group_instance_id.as_deref().map(|id| format!("@{id}")).unwrap_or_default();
            self.outcome.push(shorten(&format!(
                "  {}{instance} of {} at {}: {} session {} ms rebalance {} ms assigned {:?}",
                member.member_id,
                member.client_id,
                member.client_host,
                protocols.join(","),
                member.session_timeout_ms,
                member.rebalance_timeout_ms,
                String::from_utf8_lossy(&member.assignment)
            )));
        }
        let pending: Vec<&str> = group.pending_join_members().map(|id| &**id).collect();
        if !pending.is_empty() {
            self.outcome.push(shorten(&format!("  handed out: {}", pending.join(" "))));
        }
    }

    /// As the runtime does: the caller of a step that fails is told at once.
    fn note_failure(&mut self, caller: ReplyTo, done: Result<(), CoordinatorError>) {
        let answered = self.harness.replies.iter().any(|(to, _)| *to == caller);
        if let Err(error) = done
            && !answered
        {
            self.harness.replies.push((caller, Err(error)));
        }
    }

    fn note_replies(&mut self) {
        for (to, reply) in std::mem::take(&mut self.harness.replies) {
            let name = self.callers.remove(&to).expect("a caller is answered once");
            let reply = match reply {
                Ok(DeferredReply::Join(response)) => join_text(&response),
                Ok(DeferredReply::Sync(response)) => sync_text(&response),
                Err(error) => format!("failed: {}", error.code().name()),
            };
            self.outcome.push(shorten(&format!("< {name}: {reply}")));
        }
    }
}

/// Words of a command: `key=value`, and `name:value`.
struct Options<'a>(Vec<&'a str>);

impl<'a> Options<'a> {
    fn new(words: &[&'a str]) -> Options<'a> {
        Options(words.to_vec())
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().filter_map(|word| word.split_once('=')).find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    fn version(&self, newest: i16) -> i16 {
        self.get("v").map_or(newest, |version| version.parse().unwrap())
    }

    fn generation(&self) -> i32 {
        self.get("gen").expect("a generation").parse().unwrap()
    }

    fn pairs(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().filter(|word| !word.contains('=')).filter_map(|word| word.split_once(':'))
    }
}

fn join_text(response: &JoinGroupResponse) -> String {
    if response.error_code != 0 {
        assert!(response.members.is_empty() && !response.skip_assignment);
        return match response.member_id.is_empty() {
            true => error_name(response.error_code),
            false => format!("{} {}", error_name(response.error_code), response.member_id),
        };
    }
    let mut text = format!(
        "{} in generation {}, {} {}, leader {}",
        response.member_id,
        response.generation_id,
        response.protocol_type.as_deref().unwrap_or("null"),
        response.protocol_name.as_deref().unwrap_or("null"),
        response.leader
    );
    for member in &response.members {
        let instance = member.group_instance_id.as_deref().map(|id| format!("@{id}")).unwrap_or_default();
        write!(text, " {}{instance}:{}", member.member_id, String::from_utf8_lossy(&member.metadata)).unwrap();
    }
    if response.skip_assignment {
        text.push_str(" skip the assignment");
    }
    text
}

fn sync_text(response: &SyncGroupResponse) -> String {
    if response.error_code != 0 {
        assert!(response.assignment.is_empty() && response.protocol_name.is_none());
        return error_name(response.error_code);
    }
    format!(
        "assigned {:?} of {} {}",
        String::from_utf8_lossy(&response.assignment),
        response.protocol_type.as_deref().unwrap_or("null"),
        response.protocol_name.as_deref().unwrap_or("null")
    )
}

fn record_text(record: &GroupRecord) -> String {
    let GroupRecord::GroupMetadata(key, value) = record else { panic!("{record:?}") };
    assert_eq!(key.group, GROUP);
    let Some(GroupMetadataValue { protocol_type, generation, protocol, leader, members, .. }) = value else {
        return "log tombstone".to_owned();
    };
    let mut text = format!(
        "log generation {generation}, {protocol_type:?} {}, leader {}",
        protocol.as_deref().unwrap_or("null"),
        leader.as_deref().unwrap_or("null")
    );
    for member in members {
        let instance = member.group_instance_id.as_deref().map(|id| format!("@{id}")).unwrap_or_default();
        let assignment = String::from_utf8_lossy(&member.assignment);
        write!(text, " {}{instance}:{assignment}", member.member_id).unwrap();
    }
    shorten(&text)
}

fn error_name(code: i16) -> String {
    ErrorCode::from_code(code).expect("Kafka's").name().to_owned()
}

fn context(api_version: i16, client_id: &str) -> RequestContext {
    RequestContext { api_version, client_id: client_id.to_owned(), client_host: "/127.0.0.1".to_owned() }
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// `a#1` stands for `a-00000000-0000-0000-0000-000000000001`.
fn expand(id: &str) -> String {
    match id.split_once('#') {
        Some((name, number)) => format!("{name}-{}", uuid::Uuid::from_u128(number.parse().unwrap())),
        None => id.to_owned(),
    }
}

fn shorten(text: &str) -> String {
    let mut text = text.to_owned();
    for number in 1..100 {
        text = text.replace(&format!("-{}", uuid::Uuid::from_u128(number)), &format!("#{number}"));
    }
    text
}

fn duration(text: &str) -> Duration {
    match text.strip_suffix("ms") {
        Some(millis) => Duration::from_millis(millis.parse().unwrap()),
        None => Duration::from_secs(text.strip_suffix('s').expect("s or ms").parse().unwrap()),
    }
}

fn millis(text: &str) -> i32 {
    duration(text).as_millis() as i32
}
