//! The projects of a server: who may enter them, and the [`App`] of each.
//!
//! A project has a data folder of its own, `projects/NAME` in that of the server, with a database
//! and stored files like those of the server. So a question to one project cannot be answered with
//! something of another one: a handler gets the `App` of one project (`http/here.rs`), and that
//! knows nothing else. Here is who may enter which project; `opening` opens and closes them. This
//! is stored in the database of the first project, `main`, together with people and tokens.

pub mod retention;

use crate::config::Config;
use crate::store::{MemberRow, ProjectRow, Store, StoreError, StoreResult};
use crate::system::data_folder::PROJECTS;
use crate::who::access::{Entry, Membership};
use crate::who::people::People;
use api::ids::PersonId;
use api::people::{Role, Scope, Scopes};
use api::projects::{ChangeProject, Member, ProjectName, ProjectSettings};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use trace::units::Bytes;

/// The largest number of projects. Each takes open files, and up to 12 MiB of memory outside of the
/// budget: the caches of its database, and its cards.
pub const MOST_PROJECTS: usize = 32;

/// The largest number of labels that tell kinds of runs apart.
pub const MOST_KINDS: usize = 8;

/// The smallest quota. The database of an empty project takes less; below that, nothing could ever
/// be stored.
pub const LEAST_QUOTA: Bytes = Bytes(512 << 10);

/// The projects of a server besides the first one, and what is set for that one. An open one is an
/// `A`: the [`App`](crate::app::App).
pub struct Projects<A> {
    known: RwLock<BTreeMap<ProjectName, Known<A>>>,
    /// Held while a project is made, opened or closed, and while its members change.
    pub(crate) changing: Mutex<()>,
}

impl<A> Default for Projects<A> {
    fn default() -> Projects<A> {
        Projects {
            known: RwLock::default(),
            changing: Mutex::default(),
        }
    }
}

struct Known<A> {
    row: ProjectRow,
    members: HashMap<PersonId, Role>,
    /// `None`: closed, or it cannot be opened; never for the first project, which is open anyway.
    open: Option<Open<A>>,
    /// Why it cannot be opened, although it should be open.
    trouble: Option<String>,
}

struct Open<A> {
    app: Arc<A>,
    stopping: CancellationToken,
}

/// Why a change of projects is refused.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// The change makes no sense.
    #[error("{0}")]
    Refused(String),
    /// There is such a project.
    #[error("there is a project called {0} already")]
    Exists(ProjectName),
    /// There is none, or it is closed, or whoever asks may not enter it.
    #[error("there is no project {0}, or you may not enter it")]
    Unknown(String),
    /// Only somebody else may.
    #[error("only an admin of {0} may do this")]
    NotAdmin(&'static str),
    /// It cannot be opened.
    #[error("the project cannot be opened: {0}")]
    CannotOpen(String),
    /// It should be open, and cannot be opened. The reason names folders of the server, so it is
    /// only for its admins.
    #[error("the project {0} cannot be opened now; an admin of this server sees why on its page")]
    Broken(ProjectName),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The folder of a project in the data folder of the server.
pub fn folder_of(data: &Path, project: &ProjectName) -> PathBuf {
    match project.is_main() {
        true => data.to_owned(),
        false => data.join(PROJECTS).join(project.as_str()),
    }
}

/// The projects that have a folder, without the first one.
pub fn found_in(data: &Path) -> Vec<ProjectName> {
    let entries = std::fs::read_dir(data.join(PROJECTS));
    let entries = entries.into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut found: Vec<ProjectName> = folders
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|name: &ProjectName| !name.is_main())
        .collect();
    found.sort();
    found
}

/// The configuration of a server, for another one of its projects.
pub fn config_of(config: &Config, project: &ProjectName) -> Config {
    let blobs = config.blobs.as_ref();
    Config {
        data: folder_of(&config.data, project),
        // The files of the first project are listed by their hashes, so these are not among them.
        blobs: blobs.map(|place| format!("{}/{PROJECTS}/{project}", place.trim_end_matches('/'))),
        // People sign in to the server.
        oidc: None,
        ..config.clone()
    }
}

impl<A> Projects<A> {
    /// What the database of the first project says.
    ///
    /// # Errors
    /// The database's.
    pub async fn load(store: &Store) -> StoreResult<Projects<A>> {
        let read = store.read(|reader| Ok((reader.projects()?, reader.members()?)));
        let (rows, members) = read.await?;
        let mut known: BTreeMap<ProjectName, Known<A>> = rows
            .into_iter()
            .map(|row| (row.name.clone(), Known::new(row)))
            .collect();
        for MemberRow {
            project,
            person,
            role,
        } in members
        {
            if let Some(known) = known.get_mut(&project) {
                known.members.insert(person, role);
            }
        }
        Ok(Projects {
            known: RwLock::new(known),
            changing: Mutex::default(),
        })
    }

    /// Whether the server has more than one project.
    pub fn are_several(&self) -> bool {
        self.known().keys().any(|name| !name.is_main())
    }

    /// Whether there is such a project, open or not.
    pub fn is_known(&self, project: &ProjectName) -> bool {
        self.known().contains_key(project)
    }

    /// What somebody may do in a project; `None` if they may not enter it.
    pub fn role(&self, entry: &Entry, project: &ProjectName) -> Option<Role> {
        let is_open = |known: &Known<A>| known.open.is_some();
        let is_open = project.is_main() || self.known().get(project).is_some_and(is_open);
        self.standing(entry, project).filter(|_| is_open)
    }

    /// What somebody may do in a project that is open, or that should be and cannot be opened.
    pub fn role_once_open(&self, entry: &Entry, project: &ProjectName) -> Option<Role> {
        let role = self.role(entry, project);
        role.or_else(|| {
            self.standing(entry, project)
                .filter(|_| self.is_shut(project))
        })
    }

    /// A project that somebody may enter, but that cannot be opened.
    pub fn shut_for(&self, entry: &Entry) -> Option<ProjectName> {
        let mut names = self.names().into_iter();
        names.find(|name| self.is_shut(name) && self.standing(entry, name).is_some())
    }

    /// Why somebody cannot enter the project with this name.
    pub fn refusal(&self, entry: &Entry, named: &str) -> ProjectError {
        let project = named.parse::<ProjectName>().ok();
        let shut = project
            .filter(|project| self.is_shut(project) && self.standing(entry, project).is_some());
        shut.map_or_else(
            || ProjectError::Unknown(named.to_owned()),
            ProjectError::Broken,
        )
    }

    /// Why a project that should be open cannot be opened.
    pub fn trouble(&self, project: &ProjectName) -> Option<String> {
        self.known().get(project)?.trouble.clone()
    }

    fn is_shut(&self, project: &ProjectName) -> bool {
        self.trouble(project).is_some()
    }

    /// How many projects cannot be opened, although they should be.
    pub fn shut(&self) -> usize {
        let known = self.known();
        known
            .values()
            .filter(|known| known.trouble.is_some())
            .count()
    }

    /// What somebody may do in a project, open or not.
    fn standing(&self, entry: &Entry, project: &ProjectName) -> Option<Role> {
        if entry.bound.as_ref().is_some_and(|bound| bound != project) {
            return None;
        }
        let known = self.known();
        let known = known.get(project);
        if !project.is_main() && known.is_none() {
            return None;
        }
        let on_server = entry.role();
        if on_server == Role::Admin {
            return Some(Role::Admin);
        }
        let person = entry.person().map(|person| &person.id);
        let member = known.and_then(|known| known.members.get(person?).copied());
        let all = match project.is_main() {
            true => Some(on_server),
            false => known.and_then(|known| known.row.settings.everybody),
        };
        // A role that somebody was given may be less than what everybody has.
        member.or(all.filter(|_| on_server != Role::Guest && person.is_some()))
    }

    /// The projects that somebody may enter, the first one first.
    pub fn visible(&self, entry: &Entry) -> Vec<Membership> {
        let names = self.names();
        let places = names.into_iter().filter_map(|project| {
            let role = self.role(entry, &project)?;
            Some(Membership { project, role })
        });
        places.collect()
    }

    /// All that somebody may do in any project: the most that a token of theirs is good for.
    pub fn reach(&self, entry: &Entry) -> Scopes {
        let roles = self
            .visible(entry)
            .into_iter()
            .map(|membership| membership.role);
        let all = roles.flat_map(|role| role.scopes().both(entry.limit).iter());
        all.collect()
    }

    /// The projects that are open, the first one first.
    pub fn all_open(&self, main: &Arc<A>) -> Vec<Arc<A>> {
        let known = self.known();
        let others = known.values().filter_map(|known| known.open.as_ref());
        let others = others.map(|open| Arc::clone(&open.app));
        std::iter::once(Arc::clone(main)).chain(others).collect()
    }

    /// The project with this name, if it is open.
    pub fn app(&self, main: &Arc<A>, project: &ProjectName) -> Option<Arc<A>> {
        if project.is_main() {
            return Some(Arc::clone(main));
        }
        let known = self.known();
        let open = known.get(project)?.open.as_ref()?;
        Some(Arc::clone(&open.app))
    }

    /// What is set for a project.
    pub fn settings(&self, project: &ProjectName) -> ProjectSettings {
        let known = self.known();
        let settings = known.get(project).map(|known| known.row.settings.clone());
        settings.unwrap_or_default()
    }

    /// The members of a project, by name.
    pub fn members(&self, people: &People, project: &ProjectName) -> Vec<Member> {
        let known = self.known();
        let members = known.get(project).map(|known| &known.members);
        let named = members.into_iter().flatten().filter_map(|(id, role)| {
            Some(Member {
                person: id.clone(),
                name: people.active(id)?.name,
                role: *role,
            })
        });
        let mut members: Vec<Member> = named.collect();
        members.sort_by_key(|member| member.name.to_lowercase());
        members
    }

    /// Says what a person may do in a project; `None`: what everybody may.
    ///
    /// # Errors
    /// [`ProjectError`], for example for the first project: there the roles of the server hold.
    pub async fn set_member(
        &self,
        store: &Store,
        people: &People,
        project: &ProjectName,
        person: &PersonId,
        role: Option<Role>,
    ) -> Result<(), ProjectError> {
        if project.is_main() {
            return refuse(
                "in the first project, everybody has the role that the server gives them",
            );
        }
        let role = in_project(role)?;
        // What is known last must be what is stored last.
        let _changing = self.changing.lock().await;
        if !self.known().contains_key(project) {
            return Err(ProjectError::Unknown(project.to_string()));
        }
        if role.is_some() && people.active(person).is_none() {
            return Err(StoreError::NotFound {
                what: "person",
                id: person.to_string(),
            }
            .into());
        }
        let (of, who) = (project.clone(), person.clone());
        let write = store.write(move |writer| writer.set_member(&of, &who, role));
        write.await?;
        if let Some(known) = self.known_mut().get_mut(project) {
            match role {
                Some(role) => known.members.insert(person.clone(), role),
                None => known.members.remove(person),
            };
        }
        Ok(())
    }

    /// What is stored about a project.
    pub(crate) fn row(&self, project: &ProjectName) -> Option<ProjectRow> {
        self.known().get(project).map(|known| known.row.clone())
    }

    /// The number of projects.
    pub(crate) fn count(&self) -> usize {
        self.known().len()
    }

    /// Notes what was stored about a project.
    pub(crate) fn put(&self, row: ProjectRow) {
        let mut known = self.known_mut();
        match known.get_mut(&row.name) {
            Some(known) => known.row = row,
            None => drop(known.insert(row.name.clone(), Known::new(row))),
        }
    }

    /// Notes that there is no such project any more.
    pub(crate) fn forget(&self, project: &ProjectName) {
        self.known_mut().remove(project);
    }

    /// Notes that a project is open, until `stopping` fires.
    pub(crate) fn opened(&self, project: &ProjectName, app: Arc<A>, stopping: CancellationToken) {
        if let Some(known) = self.known_mut().get_mut(project) {
            known.open = Some(Open { app, stopping });
            known.trouble = None;
        }
    }

    /// Notes why a project cannot be opened.
    pub(crate) fn troubled(&self, project: &ProjectName, why: String) {
        if let Some(known) = self.known_mut().get_mut(project) {
            known.trouble = Some(why);
        }
    }

    /// Lets nobody enter a project any more. Requests that are under way end by themselves.
    pub(crate) fn close(&self, project: &ProjectName) {
        let mut known = self.known_mut();
        let closed = known.get_mut(project).and_then(|known| {
            known.trouble = None;
            known.open.take()
        });
        if let Some(open) = closed {
            open.stopping.cancel();
        }
    }

    /// All projects, the first one first.
    pub(crate) fn names(&self) -> Vec<ProjectName> {
        let known = self.known();
        let others: BTreeSet<&ProjectName> = known.keys().filter(|name| !name.is_main()).collect();
        let others = others.into_iter().cloned();
        std::iter::once(ProjectName::main()).chain(others).collect()
    }

    fn known(&self) -> RwLockReadGuard<'_, BTreeMap<ProjectName, Known<A>>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<ProjectName, Known<A>>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A> Known<A> {
    fn new(row: ProjectRow) -> Known<A> {
        Known {
            row,
            members: HashMap::new(),
            open: None,
            trouble: None,
        }
    }
}

/// A project for which nothing is set.
pub(crate) fn new_row(name: &ProjectName, created_ms: i64) -> ProjectRow {
    ProjectRow {
        name: name.clone(),
        created_ms,
        closed_ms: None,
        settings: ProjectSettings::default(),
    }
}

/// Whether somebody may change this about a project, being an admin of it.
///
/// # Errors
/// [`ProjectError::NotAdmin`].
pub fn may_change(
    entry: &Entry,
    membership: &Membership,
    change: &ChangeProject,
) -> Result<(), ProjectError> {
    let of_server = change.quota.is_some() || change.closed.is_some();
    match (entry.is_admin(), of_server) {
        (true, _) => Ok(()),
        (false, true) => Err(ProjectError::NotAdmin("this server")),
        (false, false) => admin(entry, membership),
    }
}

/// Whether somebody is an admin of a project.
///
/// # Errors
/// [`ProjectError::NotAdmin`].
pub fn admin(entry: &Entry, membership: &Membership) -> Result<(), ProjectError> {
    let manages = entry.bound.is_none() && entry.limit.has(Scope::Manage);
    match entry.is_admin() || membership.role == Role::Admin && manages {
        true => Ok(()),
        false => Err(ProjectError::NotAdmin("the project")),
    }
}

/// Puts a change into what is stored.
///
/// # Errors
/// [`ProjectError::Refused`].
pub(crate) fn changed(
    row: &mut ProjectRow,
    change: &ChangeProject,
    now_ms: i64,
) -> Result<(), ProjectError> {
    let settings = &mut row.settings;
    if let Some(everybody) = change.everybody {
        if row.name.is_main() {
            return refuse(
                "in the first project, everybody has the role that the server gives them",
            );
        }
        settings.everybody = in_project(everybody)?;
    }
    if let Some(quota) = change.quota {
        settings.quota = checked_quota(quota)?;
    }
    if let Some(keep) = &change.keep {
        if let Some(keep) = keep {
            retention::check(keep)?;
        }
        settings.keep.clone_from(keep);
    }
    match change.closed {
        Some(true) if row.name.is_main() => return refuse("the first project stays open"),
        Some(true) => row.closed_ms = row.closed_ms.or(Some(now_ms)),
        Some(false) => row.closed_ms = None,
        None => {}
    }
    Ok(())
}

/// A quota that leaves room for something.
///
/// # Errors
/// [`ProjectError::Refused`].
pub(crate) fn checked_quota(quota: Option<Bytes>) -> Result<Option<Bytes>, ProjectError> {
    match quota.is_none_or(|quota| quota >= LEAST_QUOTA) {
        true => Ok(quota),
        false => Err(ProjectError::Refused(format!(
            "a quota is at least {LEAST_QUOTA}: a project without any run takes most of that"
        ))),
    }
}

/// A role that people can have in a project.
///
/// # Errors
/// [`ProjectError::Refused`].
pub(crate) fn in_project(role: Option<Role>) -> Result<Option<Role>, ProjectError> {
    match role.is_none_or(|role| Role::IN_PROJECT.contains(&role)) {
        true => Ok(role),
        false => refuse("in a project, people are admin, member or reader"),
    }
}

pub(crate) fn refuse<T>(why: &str) -> Result<T, ProjectError> {
    Err(ProjectError::Refused(why.to_owned()))
}
