//! Work for several threads: queues of items, one for each log directory or whatever else has threads of its own.
//!
//! Callers say how many threads a queue gets, and wait until all is done. A thread that panics ends the caller, when the
//! others are done.

use std::panic::resume_unwind;

use parking_lot::Mutex;

/// The results of `work` for everything in the queues, by queue and in the order of its items, with up to `threads` threads for
/// each of them.
pub fn in_parallel<K: Sync, T: Send, R: Send>(
    queues: Vec<(K, Vec<T>)>,
    threads: usize,
    work: impl Fn(&K, T) -> R + Sync,
) -> Vec<R> {
    let threads_of = |items: &Vec<T>| threads.max(1).min(items.len());
    // One thread at work is the one that waits for it.
    if queues.iter().map(|(_, items)| threads_of(items)).sum::<usize>() <= 1 {
        let all = queues.into_iter().map(|(key, items)| items.into_iter().map(|item| work(&key, item)).collect());
        return all.collect::<Vec<Vec<R>>>().into_iter().flatten().collect();
    }
    let queues: Vec<_> = queues
        .into_iter()
        .map(|(key, items)| (key, threads_of(&items), Mutex::new(items.into_iter().enumerate())))
        .collect();
    let drain = |(n, (key, _, items)): (usize, &(K, usize, Mutex<_>))| {
        let mut done = Vec::new();
        loop {
            // Not held while the item is worked on.
            let item = Iterator::next(&mut *items.lock());
            match item {
                Some((at, item)) => done.push(((n, at), work(key, item))),
                None => return done,
            }
        }
    };
    let mut results: Vec<((usize, usize), R)> = std::thread::scope(|scope| {
        let workers: Vec<_> = queues
            .iter()
            .enumerate()
            .flat_map(|queue| std::iter::repeat_n(queue, queue.1.1))
            .map(|queue| scope.spawn(move || drain(queue)))
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let queues = vec![("a", (0..50).collect::<Vec<i32>>()), ("b", vec![]), ("c", vec![7])];
        let expected: Vec<_> = (0..50).map(|n| ("a", n)).chain([("c", 7)]).collect();
        for threads in [0, 1, 4, 100] {
            assert_eq!(in_parallel(queues.clone(), threads, |key, n| (*key, n)), expected, "{threads}");
        }
        assert!(in_parallel(vec![((), Vec::<i32>::new())], 4, |(), n| n).is_empty());
    }

    #[test]
    fn a_queue_has_its_threads_and_one_alone_needs_none() {
        let all = std::sync::Barrier::new(4);
        // Nobody gets on unless four work at the same time: two for each queue.
        let at_work = |_: &i32, _| {
            all.wait();
            std::thread::current().id()
        };
        let workers: HashSet<_> = in_parallel(vec![(1, vec![0, 1]), (2, vec![0, 1])], 2, at_work).into_iter().collect();
        assert_eq!(workers.len(), 4);
        let own = std::thread::current().id();
        assert_eq!(in_parallel(vec![((), vec![0, 1])], 1, |(), _| std::thread::current().id()), [own, own]);
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let panicked =
            catch_unwind(|| in_parallel(vec![((), (0..9).collect())], 3, |(), n: i32| assert_ne!(n, 5, "five")));
        assert!(panicked.unwrap_err().downcast_ref::<String>().is_some_and(|text| text.contains("five")));
    }
}
