//! Places in the program that work is attributed to.

use std::collections::HashMap;

use super::Accelerator;
use crate::race::{self, Detector};

/// Place in the program that work is attributed to.
#[derive(Debug, Default)]
pub(super) struct Site {
    pub(super) names: Vec<String>,
    /// Places by name.
    ids: HashMap<String, u32>,
    /// What the race detector calls each place, where it has met it.
    pub(super) watched: Vec<Option<race::Site>>,
    pub(super) current: u32,
}

impl Site {
    /// The program as a whole.
    pub(super) fn program() -> Site {
        let mut site = Site::default();
        site.add("program");
        site
    }

    /// A new place; its number.
    fn add(&mut self, name: &str) -> u32 {
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.ids.insert(name.to_owned(), number);
        number
    }

    /// What the race detector calls the current place.
    pub(super) fn watched_by(&mut self, detector: &mut Detector) -> race::Site {
        let at = self.current as usize;
        if self.watched.len() <= at {
            self.watched.resize(self.names.len(), None);
        }
        *self.watched[at].get_or_insert_with(|| detector.site(&self.names[at]))
    }
}

impl Accelerator {
    /// Attributes work from now on to a named place; returns the place before.
    pub fn enter_site(&mut self, name: &str) -> u32 {
        let known = self.site.ids.get(name).copied();
        let index = known.unwrap_or_else(|| self.site.add(name));
        std::mem::replace(&mut self.site.current, index)
    }

    /// Attributes work to a backward node, as long as races are watched for.
    pub(crate) fn enter_node_site(&mut self, name: &'static str) -> u32 {
        if self.detector.is_some() {
            self.enter_site(name)
        } else {
            self.site.current
        }
    }

    /// Attributes work to a place known by number.
    pub fn restore_site(&mut self, site: u32) {
        self.site.current = site;
    }

    /// Names the operation that allocates from now on; returns the one before.
    pub(crate) fn set_op(&mut self, op: &'static str) -> &'static str {
        std::mem::replace(&mut self.op, op)
    }

    /// Names of all places.
    pub fn site_names(&self) -> &[String] {
        &self.site.names
    }

    /// Name of a place.
    pub fn site_name(&self, site: u32) -> &str {
        &self.site.names[site as usize]
    }
}
