//! Classic groups.

use super::records::{GroupMetadataKey, GroupMetadataValue};
use super::{GroupShard, Step};
use crate::coordinator::shard::CoordinatorError;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClassicTimer {}

#[derive(Debug)]
pub enum Continuation {}

#[derive(Debug)]
pub struct ClassicGroup {}

impl GroupShard {
    pub(super) fn replay_group_metadata(&mut self, _key: GroupMetadataKey, _value: Option<GroupMetadataValue>) {}

    pub(super) fn on_loaded_classic(&mut self, _step: &mut Step<'_>) {}

    pub(super) fn on_append_classic(
        &mut self,
        continuation: Continuation,
        _appended: Result<(), CoordinatorError>,
        _step: &mut Step<'_>,
    ) {
        match continuation {}
    }

    pub(super) fn on_classic_timer(&mut self, timer: ClassicTimer, _step: &mut Step<'_>) {
        match timer {}
    }
}
