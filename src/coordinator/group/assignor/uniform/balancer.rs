//! Whom to take a partition from next, and whom to give it to, among the subscribers of one topic.
//!
//! Subscribers are sorted by how many partitions they have. Two ranges of equals grow towards each other: from the left those with the
//! fewest, which fill level by level, from the right those with the most, which are drained level by level. Members at the right end that
//! own nothing of the topic are put out of the right range.
//!
//! ```text
//!            fewest          most  no partition
//!            |--->            <---|  of this topic
//! partitions                      #
//!                           ##### ##
//!               ############### # ##
//!            ################## # ##
//! ```
//!
//! The sizes belong to the caller, who changes them after each step; what the ranges hold is read from them only when a range grows.

pub(super) struct Balancer {
    /// Members, by their sizes at the start, then by index.
    sorted: Vec<usize>,
    /// `[0, least_end)`: the members with the fewest partitions.
    least_end: usize,
    /// How many partitions they had before this pass over them; signed, as it starts one below the smallest size.
    least_level: i64,
    next_least: usize,
    /// `[most_start, most_end)`: the members with the most partitions.
    most_start: usize,
    most_end: usize,
    most_level: i64,
    /// One past the position of the next member to give.
    next_most: usize,
}

impl Balancer {
    /// For `members`, of which there is one at least.
    pub(super) fn new(members: &[usize], sizes: &[usize]) -> Balancer {
        let mut sorted = members.to_vec();
        sorted.sort_by_key(|&member| (sizes[member], member));
        let count = sorted.len();
        Balancer {
            least_end: 0,
            least_level: sizes[sorted[0]] as i64 - 1,
            next_least: 0,
            most_start: count,
            most_end: count,
            most_level: sizes[sorted[count - 1]] as i64 + 1,
            next_most: count,
            sorted,
        }
    }

    /// By how many partitions the members differ, before any step.
    pub(super) fn imbalance(&self, sizes: &[usize]) -> usize {
        sizes[self.sorted[self.sorted.len() - 1]] - sizes[self.sorted[0]]
    }

    /// The member to get the next partition.
    pub(super) fn next_least_loaded(&mut self, sizes: &[usize]) -> usize {
        if self.next_least >= self.least_end {
            self.least_level += 1;
            while self.least_end < self.sorted.len() && self.size(self.least_end, sizes) == self.least_level {
                self.least_end += 1;
            }
            self.next_least = 0;
        }
        let member = self.sorted[self.next_least];
        self.next_least += 1;
        member
    }

    /// The member to lose the next partition; `None` once nobody has one to give.
    pub(super) fn next_most_loaded(&mut self, sizes: &[usize]) -> Option<usize> {
        if self.next_most <= self.most_start {
            if self.most_end <= self.most_start && self.most_start > 0 {
                // All of the range were put out: begin anew at the next level that anyone is at.
                self.most_level = self.size(self.most_start - 1, sizes);
            } else {
                self.most_level -= 1;
            }
            while self.most_start > 0 && self.size(self.most_start - 1, sizes) == self.most_level {
                self.most_start -= 1;
            }
            self.next_most = self.most_end;
        }
        self.next_most = self.next_most.checked_sub(1)?;
        Some(self.sorted[self.next_most])
    }

    /// Puts the member that [`Self::next_most_loaded`] gave last out of the range.
    pub(super) fn exclude_most_loaded(&mut self) {
        self.most_end -= 1;
        self.sorted.swap(self.next_most, self.most_end);
    }

    /// Whether the two ranges differ by one partition at most.
    pub(super) fn is_balanced(&self) -> bool {
        self.most_level - self.least_level <= 1
    }

    fn size(&self, position: usize, sizes: &[usize]) -> i64 {
        sizes[self.sorted[position]] as i64
    }
}
