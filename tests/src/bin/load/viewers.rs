//! Simulated viewers: each one pans and zooms, and measures how long its pictures take.

use crate::client::Connection;
use std::thread;
use std::time::{Duration, Instant};
use trace::tiles::{GroupBy, TileId};

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The picture that viewers look at.
pub struct Picture {
    url: String,
    run: String,
    device: u64,
    events: u64,
}

/// How long pictures took.
#[derive(Default)]
pub struct Times {
    milliseconds: Vec<f64>,
    /// Answers that were not pictures.
    pub errors: usize,
}

impl Picture {
    /// The picture of the first device of a run.
    pub fn of(url: &str, run: &str) -> Picture {
        let answer = Connection::to(url).get(&format!("/api/runs/{run}"));
        let body = unpacked(answer.expect("the run is there").body);
        let run_detail: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        let device = &run_detail["devices"][0];
        Picture {
            url: url.to_owned(),
            run: run.to_owned(),
            device: device["device"].as_u64().expect("a device"),
            events: device["events"].as_u64().expect("its events"),
        }
    }

    /// Number of its events.
    pub fn events(&self) -> u64 {
        self.events
    }

    fn paths(&self, tile: TileId) -> [String; 2] {
        let Picture { run, device, .. } = self;
        let TileId { level, index } = tile;
        let group = GroupBy::Stack.name();
        let of_device = format!("/api/runs/{run}/devices/{device}");
        [
            format!("{of_device}/series/{level}/{index}"),
            format!("{of_device}/mountain/{group}/{level}/{index}"),
        ]
    }
}

/// Looks at the picture for `time`.
pub fn look(picture: &Picture, viewer: u64, time: Duration) -> Times {
    let mut connection = Connection::to(&picture.url);
    let mut chance = Chance(viewer + 1);
    let mut times = Times::default();
    let began = Instant::now();
    while began.elapsed() < time {
        let width = (picture.events >> chance.below(14)).max(1000);
        let start = chance.below(picture.events.saturating_sub(width).max(1));
        for path in picture.paths(TileId::covering(start, start + width)) {
            let asked = Instant::now();
            match connection.get(&path) {
                Ok(answer) if answer.status == 200 => {
                    times
                        .milliseconds
                        .push(asked.elapsed().as_secs_f64() * 1000.0);
                }
                Ok(answer) => {
                    eprintln!("{path}: {} {}", answer.status, answer.text());
                    times.errors += 1;
                }
                Err(error) => {
                    eprintln!("{path}: {error}");
                    times.errors += 1;
                    connection = Connection::to(&picture.url);
                }
            }
        }
        thread::sleep(LOOK_EVERY);
    }
    times
}

impl Times {
    /// Adds the times of another viewer.
    pub fn add(&mut self, other: Times) {
        self.milliseconds.extend(other.milliseconds);
        self.milliseconds.sort_by(f64::total_cmp);
        self.errors += other.errors;
    }

    /// Number of pictures.
    pub fn count(&self) -> usize {
        self.milliseconds.len()
    }

    /// The time within which this share of the pictures came.
    pub fn at(&self, share: f64) -> f64 {
        let last = self.milliseconds.len().saturating_sub(1);
        let at = (last as f64 * share).round() as usize;
        self.milliseconds.get(at).copied().unwrap_or(f64::NAN)
    }
}

/// Random numbers, the same every time (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most.max(1)
    }
}

/// The answer without its compression.
fn unpacked(body: Vec<u8>) -> Vec<u8> {
    zstd::decode_all(&body[..]).unwrap_or(body)
}
