//! All inbound connections: how many there may be, which are idle, and how they end when the broker stops.
//!
//! Kafka's `ConnectionQuotas` and its selector's idle expiry in one. Nothing here is touched by a request. A
//! connection only leaves a mark when bytes have moved, and [`Connections::sweep`] looks at the marks every now and
//! then: a connection is closed between `connections.max.idle.ms` and a sweep's interval later.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::Notify;

use super::connection::HALF_CLOSED_GRACE;
use super::connection_rate::ConnectionRate;
use super::context::{Command, ConnectionContext};

/// How many connections there may be. All but `protected_listener` and `max_idle` may change at run time.
#[derive(Clone, Debug)]
pub(super) struct ConnectionLimits {
    /// `max.connections`
    pub(super) total: usize,
    /// By the listener's index.
    pub(super) by_listener: Vec<ListenerLimits>,
    /// `max.connections.per.ip`
    pub(super) per_ip: usize,
    /// `max.connections.per.ip.overrides`
    pub(super) per_ip_overrides: HashMap<IpAddr, usize>,
    /// Of the hosts in that which are given by their names.
    pub(super) host_addresses: BTreeMap<String, IpAddr>,
    /// `max.connection.creation.rate`, per second.
    pub(super) creation_rate: u32,
    /// Index of the listener that brokers use among themselves, if there are others: its connections are let in over
    /// `total`, and others closed for them.
    pub(super) protected_listener: Option<usize>,
    /// `connections.max.idle.ms`; `None`: forever.
    pub(super) max_idle: Option<Duration>,
}

/// How many connections a listener may have; what is for all listeners, where it has nothing of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListenerLimits {
    /// `listener.name.<name>.max.connections`
    pub(super) connections: usize,
    /// `listener.name.<name>.max.connection.creation.rate`
    pub(super) creation_rate: u32,
}

/// `max.connections.per.ip` is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{ip} already has the configured maximum of {limit} connections")]
pub(super) struct TooManyConnections {
    pub(super) ip: IpAddr,
    pub(super) limit: usize,
}

/// All connections of the process.
pub(super) struct Connections {
    state: Mutex<State>,
    /// Notified when there may be room: a connection is gone, or limits have changed.
    room: Notify,
}

struct State {
    limits: ConnectionLimits,
    connections: HashMap<u64, Entry>,
    by_ip: HashMap<IpAddr, usize>,
    by_listener: Vec<ListenerState>,
    rate: ConnectionRate,
}

struct ListenerState {
    connections: usize,
    rate: ConnectionRate,
}

struct Entry {
    context: Arc<ConnectionContext>,
    listener: usize,
    /// The sweep at which the connection was last seen active, or when it came.
    active_at: Duration,
    /// Whether it was told to rest since.
    resting: bool,
    /// The sweep at which it was first seen half closed.
    half_closed_at: Option<Duration>,
}

/// Counts a connection as long as it lives.
pub(super) struct Registration {
    connections: Arc<Connections>,
    context: Arc<ConnectionContext>,
}

impl Registration {
    pub(super) fn context(&self) -> &Arc<ConnectionContext> {
        &self.context
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.connections.remove(&self.context);
    }
}

impl Connections {
    pub(super) fn new(limits: ConnectionLimits) -> Arc<Connections> {
        let listener =
            |of: &ListenerLimits| ListenerState { connections: 0, rate: ConnectionRate::new(of.creation_rate) };
        let state = State {
            connections: HashMap::new(),
            by_ip: HashMap::new(),
            by_listener: limits.by_listener.iter().map(listener).collect(),
            rate: ConnectionRate::new(limits.creation_rate),
            limits,
        };
        Arc::new(Connections { state: Mutex::new(state), room: Notify::new() })
    }

    pub(super) fn limits(&self) -> ConnectionLimits {
        self.state.lock().limits.clone()
    }

    /// Has other limits hold from now on, for as many listeners. As in Kafka, connections over `total` are closed, those
    /// that have been idle longest first, and those over other limits stay.
    pub(super) fn set_limits(&self, limits: ConnectionLimits) {
        let mut state = self.state.lock();
        state.rate.limit = limits.creation_rate;
        for (listener, of) in state.by_listener.iter_mut().zip(&limits.by_listener) {
            listener.rate.limit = of.creation_rate;
        }
        state.limits = limits;
        state.close_excess();
        drop(state);
        self.room.notify_waiters();
    }

    /// Takes in a connection that was accepted on a listener, as soon as the limits on all connections and on those of
    /// the listener allow it. `now` is asked when it is taken in.
    pub(super) async fn admit(
        self: &Arc<Connections>,
        context: Arc<ConnectionContext>,
        listener: usize,
        now: impl Fn() -> Duration,
    ) -> Result<Registration, TooManyConnections> {
        loop {
            let room = self.room.notified();
            if let Some(admitted) = self.try_admit(&context, listener, now()) {
                return admitted;
            }
            room.await;
        }
    }

    /// `None` if there is no room.
    fn try_admit(
        self: &Arc<Connections>,
        context: &Arc<ConnectionContext>,
        listener: usize,
        now: Duration,
    ) -> Option<Result<Registration, TooManyConnections>> {
        let mut state = self.state.lock();
        let limits = &state.limits;
        let protected = limits.protected_listener == Some(listener);
        if state.by_listener[listener].connections >= limits.by_listener[listener].connections
            || (!protected && state.connections.len() >= limits.total)
        {
            return None;
        }
        let ip = context.peer.ip();
        let limit = limits.per_ip_overrides.get(&ip).copied().unwrap_or(limits.per_ip);
        if state.by_ip.get(&ip).copied().unwrap_or(0) >= limit {
            return Some(Err(TooManyConnections { ip, limit }));
        }
        *state.by_ip.entry(ip).or_default() += 1;
        state.by_listener[listener].connections += 1;
        let entry =
            Entry { context: Arc::clone(context), listener, active_at: now, resting: false, half_closed_at: None };
        state.connections.insert(context.id, entry);
        state.close_excess();
        drop(state);
        Some(Ok(Registration { connections: Arc::clone(self), context: Arc::clone(context) }))
    }

    fn remove(&self, context: &ConnectionContext) {
        let mut state = self.state.lock();
        if let Some(entry) = state.connections.remove(&context.id) {
            state.by_listener[entry.listener].connections -= 1;
            let ip = context.peer.ip();
            if let Some(count) = state.by_ip.get_mut(&ip) {
                *count -= 1;
                if *count == 0 {
                    state.by_ip.remove(&ip);
                }
            }
        }
        drop(state);
        self.room.notify_waiters();
    }

    /// Counts a new connection against `max.connection.creation.rate`; returns how long its listener has to wait.
    pub(super) fn throttle(&self, listener: usize, now: Duration) -> Duration {
        let mut state = self.state.lock();
        let of_listener = state.by_listener[listener].rate.count(now);
        if state.limits.protected_listener == Some(listener) {
            return of_listener;
        }
        state.rate.count(now).max(of_listener)
    }

    /// How often to call [`Connections::sweep`].
    pub(super) fn sweep_interval(&self) -> Duration {
        let quarter = self.state.lock().limits.max_idle.map_or(Duration::MAX, |idle| idle / 4);
        quarter.clamp(Duration::from_millis(10), Duration::from_secs(5))
    }

    /// Closes the connections that have been idle too long, or half closed.
    pub(super) fn sweep(&self, now: Duration) {
        let mut state = self.state.lock();
        let max_idle = state.limits.max_idle;
        for entry in state.connections.values_mut() {
            let control = &entry.context.control;
            if control.take_active() {
                entry.active_at = now;
                entry.resting = false;
            } else if !std::mem::replace(&mut entry.resting, true) {
                control.tell_to_rest();
            }
            if max_idle.is_some_and(|limit| now.saturating_sub(entry.active_at) >= limit) {
                control.tell(Command::Idle);
            }
            if control.is_half_closed()
                && now.saturating_sub(*entry.half_closed_at.get_or_insert(now)) >= HALF_CLOSED_GRACE
            {
                control.tell(Command::PeerGone);
            }
        }
    }

    /// Tells all connections.
    pub(super) fn tell_all(&self, command: Command) {
        for entry in self.state.lock().connections.values() {
            entry.context.control.tell(command);
        }
    }

    /// Waits until there is no connection.
    pub(super) async fn wait_for_none(&self) {
        loop {
            let gone = self.room.notified();
            if self.len() == 0 {
                return;
            }
            gone.await;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.state.lock().connections.len()
    }
}

impl State {
    /// Closes the connections over `total`, those that have been idle longest first, and none of the protected listener.
    fn close_excess(&self) {
        if self.connections.len() <= self.limits.total {
            return;
        }
        // Those that are told to end are as good as gone.
        let stays = |entry: &&Entry| entry.context.control.command().is_none_or(|told| told <= Command::Drain);
        let staying = self.connections.values().filter(stays);
        let excess = staying.clone().count().saturating_sub(self.limits.total);
        let mut closable: Vec<&Entry> =
            staying.filter(|entry| self.limits.protected_listener != Some(entry.listener)).collect();
        closable.sort_by_key(|entry| (entry.active_at, entry.context.id));
        for entry in closable.into_iter().take(excess) {
            entry.context.control.tell(Command::Excess);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::context::ListenerInfo;
    use super::*;
    use crate::config::SecurityProtocol;

    /// How long a connection has been idle is known to a sweep.
    #[tokio::test]
    async fn those_that_have_been_idle_longest_are_closed_first() {
        let limits = |total| ConnectionLimits {
            total,
            by_listener: vec![ListenerLimits { connections: 100, creation_rate: 0 }],
            per_ip: 100,
            per_ip_overrides: HashMap::new(),
            host_addresses: BTreeMap::new(),
            creation_rate: 0,
            protected_listener: None,
            max_idle: None,
        };
        let connections = Connections::new(limits(10));
        let listener = ListenerInfo { name: "PLAINTEXT".to_owned(), security_protocol: SecurityProtocol::Plaintext };
        let listener = Arc::new(listener);
        let address = "127.0.0.1:1".parse().unwrap();
        let mut all = Vec::new();
        for id in 0..5 {
            let context = Arc::new(ConnectionContext::new(id, listener.clone(), address, address));
            all.push(connections.admit(context, 0, || Duration::from_secs(id)).await.unwrap());
        }
        for (seconds, active) in [(10, 1), (11, 0), (12, 3)] {
            all[active].context().control.mark_active();
            connections.sweep(Duration::from_secs(seconds));
        }
        // 2 and 4 have not been active since they came.
        for (total, closed) in [(4, &[2][..]), (2, &[1, 2, 4]), (1, &[0, 1, 2, 4])] {
            connections.set_limits(limits(total));
            let is_told = |id: &usize| all[*id].context().control.command() == Some(Command::Excess);
            assert_eq!((0..5).filter(is_told).collect::<Vec<_>>(), closed);
        }
    }
}
