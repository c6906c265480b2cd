//! Small real snapshots that are part of every binary; `tests/fixtures/*.md` describe their origin.

use crate::ingest::{Arrived, IngestError, Sender, Uploads};
use api::runs::{RunSource, Sample};
use bytes::Bytes;
use futures_util::stream;
use trace::units;

/// A bundled snapshot.
pub struct BundledSample {
    /// Name in the URL.
    pub name: &'static str,
    /// The name of the run.
    pub title: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// The file.
    pub file: &'static [u8],
}

macro_rules! fixture {
    ($name:literal) => {
        include_bytes!(concat!("../../tests/fixtures/", $name, ".pickle.zst"))
    };
}

/// The sample that is opened by default, because it shows most at a glance.
pub const SHOWN_FIRST: &str = "off_v1_moe";

/// All of them, the simplest first.
pub static ALL: [BundledSample; 6] = [
    BundledSample {
        name: "plain_lm",
        title: "A small language model, six steps",
        about: "The plain case: activations rise and fall six times over parameters and optimizer \
                state, and nothing grows.",
        file: fixture!("plain_lm"),
    },
    BundledSample {
        name: "leak_hook_cache",
        title: "A forward hook that keeps activations",
        about: "The smallest leak: a hook clones 8 MiB in every step and never lets go.",
        file: fixture!("leak_hook_cache"),
    },
    BundledSample {
        name: "off_v1_moe",
        title: "An activation offloader that leaks",
        about: "TRL's offloader at pull request #5694 keeps tensors of an expert branch that \
                backward never visits: 0.7 GB after the first step, 5.0 GB after the tenth.",
        file: fixture!("off_v1_moe"),
    },
    BundledSample {
        name: "off_v3_moe",
        title: "The same offloader after the fix",
        about: "The same program with pull request #5730: allocated stays at 0.74 GB after every \
                step.",
        file: fixture!("off_v3_moe"),
    },
    BundledSample {
        name: "streams",
        title: "Frees that wait for another stream",
        about: "Tensors used on a side stream are given back long before their memory can be \
                reused: active lies above allocated.",
        file: fixture!("streams"),
    },
    BundledSample {
        name: "oom",
        title: "A run that ends out of memory",
        about: "Twenty-one steps against a limit of 2.05 GiB, then 125 MiB that cannot be \
                had.",
        file: fixture!("oom"),
    },
];

/// The sample with this name.
pub fn find(name: &str) -> Option<&'static BundledSample> {
    ALL.iter().find(|sample| sample.name == name)
}

impl BundledSample {
    /// Makes a run from it, or finds the run that was made before.
    ///
    /// # Errors
    /// Those of an upload.
    pub async fn open(
        &'static self,
        uploads: &Uploads,
        sender: Sender,
    ) -> Result<Arrived, IngestError> {
        let (size, title) = (self.file.len() as u64, self.title.to_owned());
        let job = uploads.expect(title, Some(size), RunSource::Sample, None)?;
        let body = stream::iter([Ok(Bytes::from_static(self.file))]);
        uploads.take(job, sender, body).await
    }

    /// Its description for the API.
    pub fn describe(&self) -> Sample {
        Sample {
            name: self.name.to_owned(),
            title: self.title.to_owned(),
            about: self.about.to_owned(),
            bytes: units::Bytes(self.file.len() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::parse;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn every_sample_is_small_documented_and_readable() {
        for sample in &ALL {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures");
            let note = std::fs::read_to_string(format!("{folder}/{}.md", sample.name)).unwrap();
            assert!(note.contains("Made by"), "{}", sample.name);
            assert!(sample.file.len() < 400 << 10, "{}", sample.name);
            let snapshot = parse(sample.file.chunks(4096), &AtomicU64::new(0)).unwrap();
            assert!(!snapshot.devices.is_empty(), "{}", sample.name);
        }
        assert!(find(SHOWN_FIRST).is_some());
    }
}
