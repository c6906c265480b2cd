//! Codes of findings about the data: what a a note on its quality is about.
//! They are stored with runs and stand in answers.

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $code;)*

        /// All of them.
        pub const ALL: &[&str] = &[$($name),*];
    };
}

codes! {
    /// The file has no events.
    NO_EVENTS = "no_events";
    /// The file has one event a device: it was recorded without history.
    STATE_ONLY = "state_only";
    /// The file has no segments.
    NO_SEGMENTS = "no_segments";
    /// The file has keys that are not read.
    UNKNOWN_KEYS = "unknown_keys";
    /// The file has events that this version does not know.
    UNKNOWN_ACTIONS = "unknown_actions";
    /// The file goes on after the end of the snapshot.
    TRAILING_BYTES = "trailing_bytes";
    /// Entries of pinned memory have an unknown shape.
    HOST_MEMORY_NOT_SHOWN = "host_memory_not_shown";
    /// The ring of pinned memory also held events from before the recording.
    HOST_EVENTS_BEFORE = "host_events_before";
    /// The ring of events wrapped: the first ones are lost.
    RING_WRAPPED = "ring_wrapped";
    /// The recording began after memory had been allocated that was freed later.
    LATE_START = "late_start";
    /// Some allocations have no stack.
    NO_STACKS = "no_stacks";
    /// Some allocations have no Python frame.
    NO_PYTHON_FRAMES = "no_python_frames";
    /// Events have no times.
    NO_TIMES = "no_times";
    /// Time runs backwards.
    TIME_BACKWARDS = "time_backwards";
    /// The allocator's rules give other addresses than the recorded ones.
    ADDRESSES_NOT_PREDICTED = "addresses_not_predicted";
    /// Each request is made larger before it is rounded.
    PADDED_REQUESTS = "padded_requests";
    /// Some sizes of blocks are inferred.
    SIZES_INFERRED = "sizes_inferred";
    /// It is not said how much was asked for some blocks.
    REQUESTED_UNKNOWN = "requested_unknown";
    /// Some addresses lie in no segment.
    OUTSIDE_SEGMENTS = "outside_segments";
    /// The segments are newer than the last event.
    SEGMENTS_NEWER = "segments_newer";
    /// Some events of segments do not fit the segments.
    SEGMENT_EVENTS_UNEXPLAINED = "segment_events_unexplained";
    /// Some addresses were handed out again without having been freed.
    DOUBLE_ALLOCS = "double_allocs";
    /// Some blocks were freed again without having become free.
    DOUBLE_FREES = "double_frees";
    /// The levels after the last event differ from what the segments state.
    END_DIFFERS = "end_differs";
    /// No annotation marks the steps.
    STEPS_INFERRED = "steps_inferred";
    /// Nothing says which step an event of pinned memory is of.
    PINNED_NOT_JUDGED = "pinned_not_judged";
    /// The file was made of a profile, not by an allocator.
    MADE_OF_PROFILE = "made_of_profile";
    /// Events of segments were left out.
    SEGMENTS_NOT_RECORDED = "segments_not_recorded";
    /// Events of segments that went back were left out.
    SEGMENT_FREES_NOT_RECORDED = "segment_frees_not_recorded";
    /// Allocations or frees were left out: only the state at the end is known.
    EVENTS_LEFT_OUT = "events_left_out";
    /// Completed frees were left out: each counts as completed when it was requested.
    FREES_COMPLETED_AT_ONCE = "frees_completed_at_once";
    /// What the events say contradicts itself: some are missing.
    CONTRADICTORY = "contradictory";
}
