//! The settings that a snapshot holds.

use super::PoolKey;
use super::conf;
use super::config::{Config, MIN_BLOCK, PADDING, SMALL_SIZE, Ties, expands_private};
use crate::trace::{Action, BlockKind, PoolId, PoolSize};

/// From so many kinds of small blocks on, their sizes say whether requests are padded.
const PADDED_KINDS: usize = 4;

impl Config {
    /// Of a recording: what its settings say, and what its events show. Files of torch before 2.2
    /// have no settings, but their events show whether segments are expandable.
    pub fn of_recording(
        settings: &[(String, String)],
        torch: Option<&str>,
        mut actions: impl Iterator<Item = Action>,
    ) -> Config {
        let mut config = Config::from_settings(settings, torch);
        config.expandable_segments |= actions.any(|action| action == Action::SegmentMap);
        config
    }

    /// What is added to each request before it is rounded, as the blocks of a device show: a block
    /// of the small pool has no remainder, so a request of whole granules leaves one as large as
    /// itself, unless something is added.
    pub fn padding_of(kinds: &[BlockKind]) -> u64 {
        let tells = |kind: &&BlockKind| {
            let requested = kind.requested.0;
            kind.pool_size == PoolSize::Small
                && requested > 0
                && requested.is_multiple_of(MIN_BLOCK)
        };
        let is_padded = |kind: &BlockKind| kind.size.0 == kind.requested.0 + MIN_BLOCK;
        let mut telling = kinds.iter().filter(tells);
        let first = telling.by_ref().take(PADDED_KINDS);
        let is_padded =
            first.filter(|kind| is_padded(kind)).count() == PADDED_KINDS && telling.all(is_padded);
        match is_padded {
            true => PADDING,
            false => 0,
        }
    }

    /// The pools that never split a block, as blocks show: each with its pool, its size and what
    /// was requested, bytes. A block that these rules would have split tells it. In the large pool,
    /// segments of the usual kind may lie beside expandable ones, and in the small pool a padded
    /// request takes one granule more: what these leave tells nothing.
    pub fn unsplit_pools_of(
        &self,
        blocks: impl Iterator<Item = (PoolKey, u64, u64)>,
    ) -> Vec<PoolId> {
        let whole = blocks.filter(|(key, size, requested)| {
            let rounded = self.round_size(*requested);
            let remaining = size.saturating_sub(rounded);
            let least = match key.size {
                PoolSize::Small => MIN_BLOCK,
                PoolSize::Large => SMALL_SIZE,
            };
            key.pool != PoolId::default()
                && self.splits(key, rounded, remaining)
                && remaining > least
        });
        let mut pools: Vec<PoolId> = whole.map(|(key, ..)| key.pool).collect();
        pools.sort_unstable();
        pools.dedup();
        pools
    }

    /// From a snapshot's flattened `allocator_settings`, written by a version of torch such as
    /// `2.10 to 2.11`.
    pub fn from_settings(settings: &[(String, String)], torch: Option<&str>) -> Config {
        // The text names what has no key of its own; what PyTorch made of it is in the others.
        let text = settings.iter().find(|(name, _)| name == conf::VARIABLE);
        let mut config = text.map_or_else(Config::default, |(_, text)| {
            conf::parse_accepted(text, torch)
        });
        config.ties = Ties::of_torch(torch);
        config.expandable_private = expands_private(torch);
        for (name, value) in settings {
            match name.as_str() {
                // −1 is SIZE_MAX seen as signed: no limit.
                "max_split_size" => config.max_split_size = value.parse().ok(),
                "expandable_segments" => config.expandable_segments = value == "true",
                "garbage_collection_threshold" => {
                    let threshold = value.parse().ok().filter(|t: &f64| t.is_finite());
                    config.garbage_collection_threshold = threshold.unwrap_or_default();
                }
                _ => {
                    let Some(mib) = name.strip_prefix("roundup_power2_divisions.") else {
                        continue;
                    };
                    let bucket = mib.parse::<u64>().ok().filter(|m| m.is_power_of_two());
                    if let (Some(mib), Ok(divisions)) = (bucket, value.parse()) {
                        let at = (mib.trailing_zeros() as usize).min(15);
                        config.roundup_power2_divisions[at] = divisions;
                    }
                }
            }
        }
        config
    }
}
