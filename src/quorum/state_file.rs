//! `quorum-state`: the epoch, and whom this node voted for or knows as the leader in it. Kafka's file.
//!
//! A line of JSON. `data_version` 0 goes with static voters and lists them; 1 goes with dynamic voters and names the
//! voted directory. It is replaced in one step. A node that forgot it could vote twice in an epoch.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::storage::disk::Disk;
use crate::types::{BrokerId, DirectoryId};

/// The file's name in the metadata log's directory.
pub const FILE_NAME: &str = "quorum-state";

/// A few hundred voters fit.
const MAX_SIZE: usize = 64 << 10;

/// What must survive a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionState {
    pub epoch: i32,
    /// Known leader of the epoch.
    pub leader: Option<BrokerId>,
    /// Whom this node voted for in the epoch; the directory only with dynamic voters.
    pub voted: Option<(BrokerId, DirectoryId)>,
    /// Static voters as of then; for people to read, what counts is the configuration.
    pub voters: Vec<BrokerId>,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path}: {reason}")]
    Malformed { path: PathBuf, reason: String },
}

impl ElectionState {
    /// Reads the file in the metadata log's directory, if there is one.
    pub fn read(disk: &dyn Disk, log_dir: &Path) -> Result<Option<ElectionState>, StateFileError> {
        let path = log_dir.join(FILE_NAME);
        match disk.read_file(&path, MAX_SIZE) {
            Ok(bytes) => match ElectionState::decode(&bytes) {
                Ok(state) => Ok(Some(state)),
                Err(reason) => Err(StateFileError::Malformed { path, reason }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StateFileError::Io { path, source }),
        }
    }

    /// Replaces the file; durable on return.
    pub fn write(&self, disk: &dyn Disk, log_dir: &Path, kraft_version: i16) -> io::Result<()> {
        disk.write_file_atomically(&log_dir.join(FILE_NAME), self.encode(kraft_version).as_bytes())
    }

    fn decode(bytes: &[u8]) -> Result<ElectionState, String> {
        let value: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let number = |name: &str| -> Result<i64, String> {
            value.get(name).and_then(Value::as_i64).ok_or_else(|| format!("{name} is missing or no number"))
        };
        let int = |name: &str| -> Result<i32, String> {
            number(name)?.try_into().map_err(|_| format!("{name} is out of range"))
        };
        let version = number("data_version")?;
        if !(0..=1).contains(&version) {
            return Err(format!("data_version {version} is not known"));
        }
        let known = |id: i32| (id >= 0).then_some(BrokerId(id));
        let voted_directory = match version {
            0 => DirectoryId::UNASSIGNED,
            _ => value
                .get("votedDirectoryId")
                .and_then(Value::as_str)
                .and_then(DirectoryId::parse)
                .ok_or("votedDirectoryId is missing or no id")?,
        };
        let voters = match (version, value.get("currentVoters")) {
            (0, Some(Value::Array(voters))) => voters
                .iter()
                .map(|voter| {
                    let id = voter.get("voterId").and_then(Value::as_i64).and_then(|id| i32::try_from(id).ok());
                    id.map(BrokerId).ok_or_else(|| "a voter has no voterId".to_owned())
                })
                .collect::<Result<_, _>>()?,
            _ => Vec::new(),
        };
        Ok(ElectionState {
            epoch: int("leaderEpoch")?,
            leader: known(int("leaderId")?),
            voted: known(int("votedId")?).map(|id| (id, voted_directory)),
            voters,
        })
    }

    /// Fields in the order in which Kafka writes them.
    fn encode(&self, kraft_version: i16) -> String {
        let leader = self.leader.map_or(-1, |leader| leader.0);
        let epoch = self.epoch;
        let voted = self.voted.map_or(-1, |(id, _)| id.0);
        if kraft_version == 0 {
            let voters: Vec<String> = self.voters.iter().map(|voter| format!("{{\"voterId\":{voter}}}")).collect();
            return format!(
                "{{\"clusterId\":\"\",\"leaderId\":{leader},\"leaderEpoch\":{epoch},\"votedId\":{voted},\
                 \"appliedOffset\":0,\"currentVoters\":[{}],\"data_version\":0}}",
                voters.join(",")
            );
        }
        let directory = self.voted.map_or(DirectoryId::UNASSIGNED, |(_, directory)| directory);
        format!(
            "{{\"leaderId\":{leader},\"leaderEpoch\":{epoch},\"votedId\":{voted},\"votedDirectoryId\":\"{directory}\",\
             \"data_version\":1}}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_kafkas_files() {
        // Written by Apache Kafka 4.3.1 with static and with dynamic voters.
        let fixed = r#"{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}"#;
        let dynamic = r#"{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}"#;
        let state = ElectionState::decode(fixed.as_bytes()).unwrap();
        let expected = ElectionState { epoch: 2, leader: Some(BrokerId(1)), voted: None, voters: vec![BrokerId(1)] };
        assert_eq!(state, expected);
        assert_eq!(state.encode(0), fixed);
        let state = ElectionState::decode(dynamic.as_bytes()).unwrap();
        assert_eq!(state, ElectionState { epoch: 1, voters: vec![], ..expected });
        assert_eq!(state.encode(1), dynamic);
    }

    #[test]
    fn votes_survive() {
        let voted = (BrokerId(3), DirectoryId::random());
        let state = ElectionState { epoch: 7, leader: None, voted: Some(voted), voters: vec![] };
        assert_eq!(ElectionState::decode(state.encode(1).as_bytes()), Ok(state.clone()));
        let state = ElectionState { voted: Some((BrokerId(3), DirectoryId::UNASSIGNED)), ..state };
        assert_eq!(ElectionState::decode(state.encode(0).as_bytes()), Ok(state));
    }

    #[test]
    fn says_what_is_wrong() {
        let reason = |text: &str| ElectionState::decode(text.as_bytes()).unwrap_err();
        assert!(reason("").contains("EOF"));
        assert_eq!(reason("{}"), "data_version is missing or no number");
        assert_eq!(reason(r#"{"data_version":2}"#), "data_version 2 is not known");
        assert_eq!(reason(r#"{"data_version":0,"leaderEpoch":1e30}"#), "leaderEpoch is missing or no number");
        assert_eq!(reason(r#"{"data_version":0,"leaderEpoch":5000000000}"#), "leaderEpoch is out of range");
        assert!(reason(r#"{"data_version":1,"leaderEpoch":1}"#).contains("votedDirectoryId"));
    }
}
