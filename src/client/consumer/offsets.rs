//! Positions: committed ones, and those that are looked up.

use std::collections::BTreeMap;

use tokio::time::timeout;

use super::shared::Shared;
use super::{GroupProtocol, Position, Reset};
use crate::client::epoch_ms;
use crate::client::error::Result;
use crate::client::groups::{self, Committer, OffsetFetch};
use crate::client::offsets;
use crate::types::TopicPartition;

/// Commits the positions of all that is assigned, if that is to be done without being asked for, as far as it can be done in
/// time. What could not be committed is with the next time, or is read once more by somebody.
pub async fn auto_commit(shared: &Shared) {
    if shared.config.auto_commit {
        let _ = timeout(shared.config.client.request_timeout, commit_positions(shared)).await;
    }
}

async fn commit_positions(shared: &Shared) -> Result<()> {
    let offsets: BTreeMap<TopicPartition, i64> = {
        let positions = shared.positions.borrow();
        let known = positions.iter().filter(|(_, position)| position.offset >= 0);
        known.map(|(place, position)| (place.clone(), position.offset)).collect()
    };
    commit(shared, &offsets).await
}

/// Commits offsets as the member of the group that it is.
pub async fn commit(shared: &Shared, offsets: &BTreeMap<TopicPartition, i64>) -> Result<()> {
    if offsets.is_empty() {
        return Ok(());
    }
    let (member_id, generation_id) = shared.member.borrow().clone();
    let instance_id = shared.config.group_instance_id.as_deref();
    let committer = Committer { member_id: &member_id, generation_id, instance_id };
    groups::commit_once(&shared.client, shared.group_id(), Some(committer), offsets).await
}

/// What the group has committed of these partitions.
pub async fn committed(shared: &Shared, places: &[TopicPartition]) -> Result<BTreeMap<TopicPartition, i64>> {
    let (member_id, epoch) = shared.member.borrow().clone();
    let fetch = OffsetFetch {
        group: shared.group_id(),
        partitions: Some(places),
        member: (shared.config.group_protocol == GroupProtocol::Consumer).then_some((&member_id, epoch)),
        stable: shared.config.read_committed,
    };
    let offsets = groups::fetch_offsets(&shared.client, fetch).await?;
    Ok(offsets.into_iter().map(|(place, committed)| (place, committed.offset)).collect())
}

/// What is asked for in the place of an offset.
fn timestamp(shared: &Shared, position: i64) -> i64 {
    match shared.config.reset {
        Reset::ByDuration(before) if position == super::BY_DURATION => {
            epoch_ms().saturating_sub(i64::try_from(before.as_millis()).unwrap_or(i64::MAX)).max(0)
        }
        _ => position,
    }
}

/// Finds the leaders, and asks them for the positions that are still `EARLIEST` or `LATEST`.
pub async fn look_up(shared: &Shared) -> Result<()> {
    shared.learn_leaders().await?;
    let mut wanted: BTreeMap<i32, BTreeMap<TopicPartition, i64>> = BTreeMap::new();
    {
        let leaders = shared.leaders.borrow();
        for (place, position) in shared.positions.borrow().iter().filter(|(_, position)| position.offset < 0) {
            if let Some(&leader) = leaders.get(place) {
                wanted.entry(leader).or_default().insert(place.clone(), timestamp(shared, position.offset));
            }
        }
    }
    for (leader, wanted) in wanted {
        let partitions: Vec<TopicPartition> = wanted.keys().cloned().collect();
        let listed = offsets::ask(&shared.client, leader, &partitions, &wanted, shared.config.read_committed).await?;
        for (place, listed) in listed {
            let offset = listed?.offset;
            let mut positions = shared.positions.borrow_mut();
            if let Some(position) = positions.get_mut(&place).filter(|position| position.offset < 0) {
                *position = Position { offset, fetched: offset };
            }
        }
    }
    Ok(())
}
