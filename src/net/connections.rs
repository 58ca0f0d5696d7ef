//! All inbound connections: how many there may be, which are idle, and how they end when the broker stops.
//!
//! Kafka's `ConnectionQuotas` and its selector's idle expiry in one. Nothing here is touched by a request. A
//! connection only leaves a mark when bytes have moved, and [`Connections::sweep`] looks at the marks every now and
//! then: a connection is closed between `connections.max.idle.ms` and a sweep's interval later.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::Notify;

use super::connection::HALF_CLOSED_GRACE;
use super::context::{Command, ConnectionContext};

/// How many connections there may be.
#[derive(Clone, Debug)]
pub(super) struct ConnectionLimits {
    /// `max.connections`
    pub(super) total: usize,
    /// `listener.name.<name>.max.connections`, by the listener's index.
    pub(super) by_listener: Vec<usize>,
    /// `max.connections.per.ip`
    pub(super) per_ip: usize,
    /// `max.connections.per.ip.overrides`
    pub(super) per_ip_overrides: HashMap<IpAddr, usize>,
    /// `max.connection.creation.rate`, per second.
    pub(super) creation_rate: u32,
    /// Index of the listener that brokers use among themselves, if there are others: its connections are let in over
    /// `total`, and others closed for them.
    pub(super) protected_listener: Option<usize>,
    /// `connections.max.idle.ms`; `None`: forever.
    pub(super) max_idle: Option<Duration>,
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
    limits: ConnectionLimits,
    state: Mutex<State>,
    /// Notified when a connection is gone.
    gone: Notify,
}

#[derive(Default)]
struct State {
    connections: HashMap<u64, Entry>,
    by_ip: HashMap<IpAddr, usize>,
    by_listener: Vec<usize>,
    /// Connections that may be let in now, in millionths; may be negative.
    credit: i64,
    /// When `credit` was last reckoned.
    credited_at: Duration,
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

/// Kafka measures the rate of new connections over eleven seconds' samples, of which ten are whole.
const RATE_WINDOW: i64 = 10;
const CREDIT: i64 = 1_000_000;

impl Connections {
    pub(super) fn new(limits: ConnectionLimits, now: Duration) -> Arc<Connections> {
        let state = State {
            by_listener: vec![0; limits.by_listener.len()],
            credit: i64::from(limits.creation_rate) * RATE_WINDOW * CREDIT,
            credited_at: now,
            ..State::default()
        };
        Arc::new(Connections { limits, state: Mutex::new(state), gone: Notify::new() })
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
            let gone = self.gone.notified();
            if let Some(admitted) = self.try_admit(&context, listener, now()) {
                return admitted;
            }
            gone.await;
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
        let protected = self.limits.protected_listener == Some(listener);
        if state.by_listener[listener] >= self.limits.by_listener[listener]
            || (!protected && state.connections.len() >= self.limits.total)
        {
            return None;
        }
        let ip = context.peer.ip();
        let limit = self.limits.per_ip_overrides.get(&ip).copied().unwrap_or(self.limits.per_ip);
        if state.by_ip.get(&ip).copied().unwrap_or(0) >= limit {
            return Some(Err(TooManyConnections { ip, limit }));
        }
        *state.by_ip.entry(ip).or_default() += 1;
        state.by_listener[listener] += 1;
        let entry =
            Entry { context: Arc::clone(context), listener, active_at: now, resting: false, half_closed_at: None };
        state.connections.insert(context.id, entry);
        if state.connections.len() > self.limits.total {
            self.close_for(&state, listener);
        }
        drop(state);
        Some(Ok(Registration { connections: Arc::clone(self), context: Arc::clone(context) }))
    }

    /// Closes the connection that has been idle longest for one on the protected listener.
    fn close_for(&self, state: &State, protected: usize) {
        let closable = state.connections.values().filter(|entry| {
            entry.listener != protected && entry.context.control.command().is_none_or(|told| told <= Command::Drain)
        });
        if let Some(entry) = closable.min_by_key(|entry| (entry.active_at, entry.context.id)) {
            entry.context.control.tell(Command::Excess);
        }
    }

    fn remove(&self, context: &ConnectionContext) {
        let mut state = self.state.lock();
        if let Some(entry) = state.connections.remove(&context.id) {
            state.by_listener[entry.listener] -= 1;
            let ip = context.peer.ip();
            if let Some(count) = state.by_ip.get_mut(&ip) {
                *count -= 1;
                if *count == 0 {
                    state.by_ip.remove(&ip);
                }
            }
        }
        drop(state);
        self.gone.notify_waiters();
    }

    /// Counts a new connection against `max.connection.creation.rate`; returns how long its listener has to wait.
    pub(super) fn throttle(&self, listener: usize, now: Duration) -> Duration {
        if self.limits.protected_listener == Some(listener) {
            return Duration::ZERO;
        }
        let rate = i64::from(self.limits.creation_rate);
        let mut state = self.state.lock();
        let elapsed = now.saturating_sub(state.credited_at).min(Duration::from_secs(RATE_WINDOW as u64));
        state.credited_at = now;
        // Credit for a microsecond is a millionth of what a second gives.
        let earned = elapsed.as_micros() as i64 * rate;
        state.credit = (state.credit + earned).min(rate * RATE_WINDOW * CREDIT) - CREDIT;
        match (-state.credit).checked_div(rate) {
            Some(micros) => Duration::from_micros(micros.clamp(0, RATE_WINDOW * 1_000_000) as u64),
            // A rate of 0: Kafka's throttling, too, ends after its window.
            None => Duration::from_secs(RATE_WINDOW as u64),
        }
    }

    /// How often to call [`Connections::sweep`].
    pub(super) fn sweep_interval(&self) -> Duration {
        let quarter = self.limits.max_idle.map_or(Duration::MAX, |idle| idle / 4);
        quarter.clamp(Duration::from_millis(10), Duration::from_secs(5))
    }

    /// Closes the connections that have been idle too long, or half closed.
    pub(super) fn sweep(&self, now: Duration) {
        let mut state = self.state.lock();
        for entry in state.connections.values_mut() {
            let control = &entry.context.control;
            if control.take_active() {
                entry.active_at = now;
                entry.resting = false;
            } else if !std::mem::replace(&mut entry.resting, true) {
                control.tell_to_rest();
            }
            if self.limits.max_idle.is_some_and(|limit| now.saturating_sub(entry.active_at) >= limit) {
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
            let gone = self.gone.notified();
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
