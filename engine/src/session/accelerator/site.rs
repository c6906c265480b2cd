//! Places in the program, which say where work comes from.

use std::collections::HashMap;

use super::Accelerator;
use crate::race::{self, Detector};

/// Where in the program the present work comes from.
#[derive(Debug, Default)]
pub(super) struct Site {
    pub(super) names: Vec<String>,
    /// Numbers of places, by name.
    ids: HashMap<String, u32>,
    /// The race detector's number for each place that it knows.
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

    /// Adds a place; returns its number.
    fn add(&mut self, name: &str) -> u32 {
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.ids.insert(name.to_owned(), number);
        number
    }

    /// The race detector's number for the current place.
    pub(super) fn watched_by(&mut self, detector: &mut Detector) -> race::Site {
        let at = self.current as usize;
        if self.watched.len() <= at {
            self.watched.resize(self.names.len(), None);
        }
        *self.watched[at].get_or_insert_with(|| detector.site(&self.names[at]))
    }
}

impl Accelerator {
    /// From now on, work comes from the place with this name; returns the place before.
    pub fn enter_site(&mut self, name: &str) -> u32 {
        let known = self.site.ids.get(name).copied();
        let index = known.unwrap_or_else(|| self.site.add(name));
        std::mem::replace(&mut self.site.current, index)
    }

    /// From now on, work comes from a backward node, if races are watched.
    pub(crate) fn enter_node_site(&mut self, name: &'static str) -> u32 {
        if self.detector.is_some() {
            self.enter_site(name)
        } else {
            self.site.current
        }
    }

    /// From now on, work comes from the place with this number.
    pub fn restore_site(&mut self, site: u32) {
        self.site.current = site;
    }

    /// Sets the name of the operation that allocates from now on; returns the one before.
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
