//! What a hostile client may ask for.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::{JoinGroupRequest, JoinGroupResponse};
use kafka_protocol::protocol::StrBytes;

use crate::config::BrokerConfig;
use crate::coordinator::group::{DeferredReply, Group, GroupShard, RequestContext};
use crate::coordinator::shard::ReplyTo;
use crate::coordinator::shard::harness::Harness;
use crate::metadata::image::MetadataImage;
use crate::protocol::ErrorCode;

fn join(harness: &mut Harness<GroupShard>, client_id: &str, instance_id: Option<&str>) -> JoinGroupResponse {
    let text = |text: &str| StrBytes::from_string(text.to_owned());
    let protocol = JoinGroupRequestProtocol::default().with_name(text("range")).with_metadata(Bytes::from_static(b"m"));
    let request = JoinGroupRequest::default()
        .with_group_id(text("g").into())
        .with_group_instance_id(instance_id.map(text))
        .with_session_timeout_ms(6_000)
        .with_protocol_type(text("test"))
        .with_protocols(vec![protocol]);
    let context =
        RequestContext { api_version: 9, client_id: client_id.to_owned(), client_host: "/127.0.0.1".to_owned() };
    harness.step(|shard, step| shard.join_group(step, &context, request, ReplyTo(1))).unwrap();
    match harness.replies.pop() {
        Some((ReplyTo(1), Ok(DeferredReply::Join(response)))) => response,
        other => panic!("{other:?}"),
    }
}

fn new_harness() -> Harness<GroupShard> {
    Harness::new(GroupShard::default(), MetadataImage::empty(), BrokerConfig::default())
}

/// A client or instance id may be as long as a text of the protocol, and the member id made of it then longer than that.
#[test]
fn a_member_id_that_no_record_can_hold_is_refused() {
    let mut harness = new_harness();
    let longest = "x".repeat(usize::from(i16::MAX as u16));
    for (client_id, instance_id) in [(&*longest, None), ("c", Some(&*longest))] {
        let response = join(&mut harness, client_id, instance_id);
        assert_eq!(response.error_code, ErrorCode::UnknownServerError.code());
    }
    let just_short_enough = &longest[..longest.len() - 37];
    assert_eq!(join(&mut harness, just_short_enough, None).error_code, ErrorCode::MemberIdRequired.code());
}

#[test]
fn ids_that_nobody_joins_with_lapse() {
    let mut harness = new_harness();
    for _ in 0..10_000 {
        assert_eq!(join(&mut harness, "c", None).error_code, ErrorCode::MemberIdRequired.code());
    }
    let pending = |harness: &Harness<GroupShard>| match harness.shard.groups.get("g") {
        Some(Group::Classic(group)) => group.pending_join_members().len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(pending(&harness), 10_000);
    harness.advance(Duration::from_secs(6));
    assert_eq!(pending(&harness), 0);
    assert!(harness.shard.timers.len() <= 1, "{:?}", harness.shard.timers);
    assert_eq!(harness.log.len(), 1, "one record, of the group");
}
