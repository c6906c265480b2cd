//! Counts requests by route: how many, how they ended, how long they took.
//!
//! A label is the template of a route, a known HTTP method, or a class of statuses. So clients
//! cannot make new labels.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::time::Duration;

/// The upper ends of the buckets for durations, in seconds. A tile takes milliseconds, a question
/// about a large recording 0.3 s, an upload a minute.
const ENDS: [f64; 10] = [0.001, 0.005, 0.025, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 120.0];

/// Stands for requests without a route (the page, its files, and unknown addresses), and for
/// methods that HTTP does not define.
const OTHER: &str = "other";

/// The labels of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
    route: String,
    method: &'static str,
}

/// The labels of a request and of its result.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    route: String,
    method: &'static str,
    status: &'static str,
}

/// The counts.
pub struct Requests {
    registry: Registry,
    answered: Family<Answered, Counter>,
    took: Family<Asked, Histogram, fn() -> Histogram>,
}

impl Default for Requests {
    fn default() -> Requests {
        let answered = Family::<Answered, Counter>::default();
        let new: fn() -> Histogram = || Histogram::new(ENDS);
        let took = Family::new_with_constructor(new);
        let mut registry = Registry::with_prefix("tidemark");
        registry.register(
            "http_requests",
            "Requests by route, method and class of status",
            answered.clone(),
        );
        registry.register_with_unit(
            "http_request_duration",
            "Time until the head of the answer, or until an upload has come",
            Unit::Seconds,
            took.clone(),
        );
        Requests {
            registry,
            answered,
            took,
        }
    }
}

impl Requests {
    /// The registry that they are in.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Counts a request: the template of its route, if it has one, its method, its status, its
    /// time.
    pub fn count(&self, route: Option<&str>, method: &str, status: u16, took: Duration) {
        let route = route.unwrap_or(OTHER).to_owned();
        let method = known(method);
        let answered = Answered {
            route: route.clone(),
            method,
            status: class_of(status),
        };
        self.answered.get_or_create(&answered).inc();
        let asked = Asked { route, method };
        self.took.get_or_create(&asked).observe(took.as_secs_f64());
    }
}

fn known(method: &str) -> &'static str {
    let known = [
        "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE",
    ];
    let found = known.into_iter().find(|name| *name == method);
    found.unwrap_or(OTHER)
}

fn class_of(status: u16) -> &'static str {
    match status / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}
