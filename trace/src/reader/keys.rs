//! The words that snapshots consist of, at fixed places of the string table.

use crate::snapshot::KeysSeen;
use crate::trace::Action;

macro_rules! words {
    ($($name:ident = $text:literal),+ $(,)?) => {
        /// A key that the reader knows; its number is its place in the string table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Key { $($name),+ }

        /// The keys' text, in the order of [`Key`].
        pub const KEYS: &[&str] = &[$($text),+];

        impl Key {
            /// All of them.
            pub const ALL: &[Key] = &[$(Key::$name),+];

            /// The key at a place of the string table.
            pub fn at(index: u32) -> Option<Key> {
                Key::ALL.get(index as usize).copied()
            }
        }
    };
}

words! {
    Action = "action",
    Addr = "addr",
    DeviceFree = "device_free",
    Size = "size",
    Stream = "stream",
    TimeUs = "time_us",
    Frames = "frames",
    CompileContext = "compile_context",
    UserMetadata = "user_metadata",
    PoolId = "pool_id",
    ForwardFrames = "forward_frames",
    InternalMetadata = "internal_metadata",
    Category = "category",
    Name = "name",
    Filename = "filename",
    Line = "line",
    Stage = "stage",
    Device = "device",
    Address = "address",
    TotalSize = "total_size",
    AllocatedSize = "allocated_size",
    ActiveSize = "active_size",
    RequestedSize = "requested_size",
    SegmentType = "segment_type",
    SegmentPoolId = "segment_pool_id",
    IsExpandable = "is_expandable",
    Blocks = "blocks",
    State = "state",
    History = "history",
    RealSize = "real_size",
    FxNodeOp = "fx_node_op",
    FxNodeName = "fx_node_name",
    FxNodeInfo = "fx_node_info",
    FxOriginalTrace = "fx_original_trace",
    Segments = "segments",
    DeviceTraces = "device_traces",
    AllocatorSettings = "allocator_settings",
    ExternalAnnotations = "external_annotations",
    HostSegments = "host_segments",
    HostTraces = "host_traces",
    CaptureReuse = "graph_capture_record_stream_reuse",
    TraceOverflowed = "trace_alloc_overflowed",
    TraceMaxEntries = "trace_alloc_max_entries",
    MaxCachedSize = "max_cached_size",
}

impl Key {
    /// Its bit in a [`KeysSeen`].
    pub const fn bit(self) -> u64 {
        1 << self as u8
    }
}

/// Action words, in the order of [`Action::ALL`] without `Unknown`; they follow the keys in the
/// string table.
pub const ACTIONS: [&str; 10] = [
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "snapshot",
    "oom",
    "annotate",
];

/// The action named by the string at `index`.
#[inline]
pub fn action_at(index: u32) -> Action {
    (index as usize)
        .checked_sub(KEYS.len())
        .filter(|&i| i < ACTIONS.len())
        .map_or(Action::Unknown, |i| Action::ALL[i])
}

/// A file without a later feature can be from this version of torch at most.
const NEWEST: &str = "2.15";

impl KeysSeen {
    /// Whether the file has the key.
    pub(crate) fn has(self, key: Key) -> bool {
        self.0 & key.bit() != 0
    }

    /// Whether the file has a list of segments, even an empty one.
    pub(crate) fn has_segments(self) -> bool {
        self.has(Key::Segments)
    }

    /// Whether the file has a list of events, even an empty one.
    pub(crate) fn has_traces(self) -> bool {
        self.has(Key::DeviceTraces)
    }

    /// Whether `torch.cuda._memory_viz` made the file of a profile: it writes no times, and one
    /// segment for each device, which says of no pool.
    pub(crate) fn of_profile(self) -> bool {
        let has_memory = self.has(Key::TotalSize) && self.has(Key::Category);
        has_memory && !self.has(Key::TimeUs) && !self.has(Key::SegmentType)
    }

    /// The torch versions that write these keys (docs/snapshot-format.md, "Keys by torch version"),
    /// such as `2.10 to 2.11`.
    /// `None` when the file has neither blocks nor events to judge by, and of a profile: every
    /// version writes that alike.
    pub fn torch_guess(self) -> Option<String> {
        if self.of_profile() {
            return None;
        }
        // Per feature: the first version that writes it.
        let features = [
            (Key::IsExpandable, 1),
            (Key::TimeUs, 2),
            (Key::AllocatorSettings, 3),
            (Key::ExternalAnnotations, 5),
            (Key::CompileContext, 8),
            (Key::UserMetadata, 10),
            (Key::PoolId, 12),
            (Key::MaxCachedSize, 13),
            (Key::HostSegments, 14),
        ];
        // The key of 2.15 occurs only on rare events. So its presence says something, and its
        // absence does not.
        if self.has(Key::InternalMetadata) {
            return Some(format!("{NEWEST} or later"));
        }
        let newest_seen = features.iter().rev().find(|(key, _)| self.has(*key));
        let from = newest_seen.map_or(0, |(_, version)| *version);
        let from = from.max(if self.has(Key::CaptureReuse) { 9 } else { 0 });
        // Without events, the keys of events are missing. Then only keys of the top level count.
        let has_events = self.has(Key::Action);
        let event_key = |key| {
            matches!(
                key,
                Key::TimeUs | Key::CompileContext | Key::UserMetadata | Key::PoolId
            )
        };
        // A list of segments, or a part of the dictionary, lacks the keys of the top.
        let is_whole = self.has_segments() && self.has_traces();
        let top_key = |key| {
            matches!(
                key,
                Key::AllocatorSettings
                    | Key::ExternalAnnotations
                    | Key::MaxCachedSize
                    | Key::HostSegments
            )
        };
        let may_be_absent = |key| (!has_events && event_key(key)) || (!is_whole && top_key(key));
        // Empty lists say nothing.
        if from == 0 && !has_events && !self.has(Key::TotalSize) {
            return None;
        }
        let absent = features
            .iter()
            .find(|(key, version)| *version > from && !may_be_absent(*key));
        Some(match absent {
            Some((_, version)) if version - 1 == from => format!("2.{from}"),
            Some((_, version)) => format!("2.{from} to 2.{}", version - 1),
            None => format!("2.{from} or later"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_the_torch_version() {
        let check = |keys: &[Key], expected: &str| {
            let seen = KeysSeen(keys.iter().fold(0, |bits, key| bits | key.bit()));
            assert_eq!(seen.torch_guess().as_deref(), Some(expected));
        };
        let base = [
            Key::Segments,
            Key::DeviceTraces,
            Key::Action,
            Key::IsExpandable,
            Key::TimeUs,
            Key::AllocatorSettings,
        ];
        let with = |more: &[Key]| [&base[..], more].concat();
        check(&[Key::Action], "2.0");
        check(&with(&[]), "2.3 to 2.4");
        check(
            &with(&[Key::ExternalAnnotations, Key::CompileContext]),
            "2.8 to 2.9",
        );
        let eleven = [
            Key::ExternalAnnotations,
            Key::CompileContext,
            Key::UserMetadata,
        ];
        check(&with(&eleven), "2.10 to 2.11");
        check(&with(&[Key::HostSegments, Key::PoolId]), "2.14 or later");
        let profile = [
            Key::Segments,
            Key::DeviceTraces,
            Key::TotalSize,
            Key::Action,
            Key::Category,
        ];
        let of_profile = KeysSeen(profile.iter().fold(0, |bits, key| bits | key.bit()));
        assert_eq!(of_profile.torch_guess(), None);
        check(&[&profile[..], &[Key::SegmentType]].concat(), "2.0");
        assert_eq!(KeysSeen(0).torch_guess(), None);
        let empty_lists = KeysSeen(Key::Segments.bit() | Key::DeviceTraces.bit());
        assert_eq!(empty_lists.torch_guess(), None);
        check(&[Key::Segments, Key::TotalSize], "2.0");
        // `torch.cuda.memory_snapshot()` of 2.11 gives segments alone.
        let list = [Key::Segments, Key::TotalSize, Key::IsExpandable];
        check(&list, "2.1 or later");
    }
}
