//! Opens a server: its first project and then the others. Makes and closes projects. Each hour it
//! deletes the runs that do not stay; `tidied` says what the audit tells of that.

#[cfg(test)]
mod tests;
mod tidied;

use crate::app::{App, OpenError};
use crate::config::Config;
use crate::projects::{
    MOST_PROJECTS, ProjectError, Projects, changed, checked_quota, config_of, folder_of, found_in,
    in_project, new_row, refuse, retention,
};
use crate::store::{ProjectRow, StoreError, StoreResult};
use crate::system::clock::now_ms;
use crate::system::data_lock::Unusable;
use crate::who::access::Entry;
use api::people::Role;
use api::projects::{ChangeProject, Keep, NewProject, Project, ProjectName};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often runs that do not stay are deleted.
const EVERY: Duration = Duration::from_secs(3600);

/// How often a closed project is asked whether its uploads have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl App {
    /// Opens the data folder with all its projects, cleans up after a server that died, and starts
    /// housekeeping. If nothing can be written, the existing data is served.
    ///
    /// # Errors
    /// Why the server cannot start. A project that cannot be opened is only reported.
    pub async fn open(config: Config) -> Result<Arc<App>, OpenError> {
        config.check()?;
        let app = App::open_first(config).await?;
        app.projects.open_all(&app).await?;
        if app.store.refusal().is_none() {
            let keeping = keep_house(Arc::downgrade(&app));
            tokio::spawn(app.stopping.clone().run_until_cancelled_owned(keeping));
        }
        Ok(app)
    }
}

impl Projects<App> {
    /// Opens all projects that are not closed. A folder that the database does not know becomes a
    /// closed project, because nobody knows whom it let in: the database may have been made again,
    /// or the folder may be one that was removed.
    ///
    /// # Errors
    /// The database's.
    pub async fn open_all(&self, main: &Arc<App>) -> StoreResult<()> {
        for name in found_in(&main.config.data) {
            if self.is_known(&name) {
                continue;
            }
            tracing::warn!(%name, "a project that the database does not know is closed; an admin \
                opens it again on its page");
            let row = ProjectRow {
                closed_ms: Some(now_ms()),
                ..new_row(&name, now_ms())
            };
            if main.store.refusal().is_none() {
                let stored = row.clone();
                main.store
                    .write(move |writer| writer.put_project(&stored))
                    .await?;
            }
            self.put(row);
        }
        let rows: Vec<ProjectRow> = self
            .names()
            .iter()
            .filter_map(|name| self.row(name))
            .collect();
        for row in rows {
            let (name, quota) = (row.name, row.settings.quota);
            if name.is_main() {
                main.uploads.share().limit(quota);
            } else if row.closed_ms.is_some() && !folder_of(&main.config.data, &name).exists() {
                // Somebody removed it for good.
                let gone = name.clone();
                main.store
                    .write(move |writer| writer.forget_project(&gone))
                    .await?;
                self.forget(&name);
            } else if row.closed_ms.is_none() {
                // The reason is kept and logged; the others are served.
                let _ = self.open(main, &name).await;
            }
        }
        Ok(())
    }

    /// The projects that somebody may enter; for an admin of the server also those that are closed
    /// or cannot be opened.
    ///
    /// # Errors
    /// The databases'.
    pub async fn list(&self, main: &Arc<App>, entry: &Entry) -> StoreResult<Vec<Project>> {
        let mut found = Vec::new();
        for name in self.names() {
            let role = self.role_once_open(entry, &name);
            let role = role.or(entry.is_admin().then_some(Role::Admin));
            if let Some(role) = role {
                found.push(self.shown(main, &name, entry, role).await?);
            }
        }
        Ok(found)
    }

    /// A project, as somebody with this role sees it. Why it cannot be opened is for admins of the
    /// server: the reason names its folders.
    ///
    /// # Errors
    /// The database's.
    pub async fn shown(
        &self,
        main: &Arc<App>,
        name: &ProjectName,
        entry: &Entry,
        role: Role,
    ) -> StoreResult<Project> {
        let row = self.row(name);
        let row = row.unwrap_or_else(|| new_row(name, 0));
        let mut project = Project {
            name: row.name,
            role,
            created_ms: row.created_ms,
            closed_ms: row.closed_ms,
            settings: row.settings,
            runs: 0,
            used: Default::default(),
            trouble: self.trouble(name).map(|why| match entry.is_admin() {
                true => why,
                false => ProjectError::Broken(name.clone()).to_string(),
            }),
        };
        if let Some(app) = self.app(main, name) {
            project.runs = app.store.read(|reader| reader.stored()).await?.runs;
            project.used = app.uploads.share().used();
        }
        Ok(project)
    }

    /// Makes a project.
    ///
    /// # Errors
    /// [`ProjectError`].
    pub async fn create(
        &self,
        main: &Arc<App>,
        new: &NewProject,
        now_ms: i64,
    ) -> Result<(), ProjectError> {
        let _changing = self.changing.lock().await;
        if new.name.is_main() || self.is_known(&new.name) {
            return Err(ProjectError::Exists(new.name.clone()));
        }
        if self.count() >= MOST_PROJECTS {
            return refuse("there are too many projects");
        }
        let mut row = new_row(&new.name, now_ms);
        row.settings.everybody = in_project(new.everybody)?;
        row.settings.quota = checked_quota(new.quota)?;
        let made = self.make(main, row).await;
        if let Err(error) = &made {
            tracing::error!(name = %new.name, %error, "a project cannot be made");
        }
        made
    }

    /// Makes a project all at once: it is known only when its folder is there, and what was begun
    /// of a folder goes if it cannot be known.
    async fn make(&self, main: &Arc<App>, row: ProjectRow) -> Result<(), ProjectError> {
        let config = config_of(&main.config, &row.name);
        let places = [Some(config.data), config.blobs.map(PathBuf::from)];
        let new: Vec<PathBuf> = places
            .into_iter()
            .flatten()
            .filter(|it| !it.exists())
            .collect();
        let stopping = main.stopping.child_token();
        let made = async {
            let opened = main.open_beside(row.name.clone(), stopping.clone()).await;
            let app = opened.map_err(not_opened)?;
            let stored = row.clone();
            main.store
                .write(move |writer| writer.put_project(&stored))
                .await?;
            Ok::<_, ProjectError>(app)
        };
        match made.await {
            Ok(app) => {
                let (name, quota) = (row.name.clone(), row.settings.quota);
                app.uploads.share().limit(quota);
                self.put(row);
                self.opened(&name, app, stopping);
                Ok(())
            }
            Err(error) => {
                stopping.cancel();
                for folder in new {
                    // A folder in a bucket is none here, and one that was not begun is not there.
                    let _ = std::fs::remove_dir_all(folder);
                }
                Err(error)
            }
        }
    }

    /// Changes how a project is kept, closes it, or opens it again.
    ///
    /// # Errors
    /// [`ProjectError`].
    pub async fn change(
        &self,
        main: &Arc<App>,
        name: &ProjectName,
        change: &ChangeProject,
        now_ms: i64,
    ) -> Result<(), ProjectError> {
        let _changing = self.changing.lock().await;
        let row = self.row(name);
        let mut row = match row {
            Some(row) => row,
            None if name.is_main() => new_row(name, 0),
            None => return Err(ProjectError::Unknown(name.to_string())),
        };
        changed(&mut row, change, now_ms)?;
        let stored = row.clone();
        main.store
            .write(move |writer| writer.put_project(&stored))
            .await?;
        let (is_open, quota) = (row.closed_ms.is_none(), row.settings.quota);
        self.put(row);
        if !is_open {
            let app = self.app(main, name);
            self.close(name);
            if let Some(app) = app {
                tokio::spawn(wind_down(app));
            }
        }
        if is_open && !name.is_main() && self.app(main, name).is_none() {
            self.open(main, name).await?;
        }
        if let Some(app) = self.app(main, name) {
            app.uploads.share().limit(quota);
        }
        Ok(())
    }

    async fn open(&self, main: &Arc<App>, name: &ProjectName) -> Result<(), ProjectError> {
        let stopping = main.stopping.child_token();
        let app = match main.open_beside(name.clone(), stopping.clone()).await {
            Ok(app) => app,
            Err(error) => {
                tracing::error!(%name, %error, "a project cannot be opened");
                let error = not_opened(error);
                let why = match &error {
                    ProjectError::CannotOpen(why) => why.clone(),
                    error => error.to_string(),
                };
                self.troubled(name, why);
                return Err(error);
            }
        };
        let quota = self.settings(name).quota;
        app.uploads.share().limit(quota);
        self.opened(name, app, stopping);
        Ok(())
    }
}

/// Why a project cannot be opened, for whoever wanted that.
fn not_opened(error: OpenError) -> ProjectError {
    match error {
        // The requests that were under way when it was closed still hold it.
        OpenError::Folder(Unusable::InUse(_)) => {
            ProjectError::CannotOpen("it is still being closed; try again in a moment".to_owned())
        }
        error if error.is_full() => ProjectError::Store(StoreError::Full),
        error => ProjectError::CannotOpen(error.to_string()),
    }
}

/// Ends the uploads of a project that was closed. Until then it keeps its lock, so that nobody
/// opens it again and takes these uploads up as those of a server that died.
async fn wind_down(app: Arc<App>) {
    for upload in app.uploads.unfinished() {
        // It may have ended by itself.
        let _ = app.uploads.cancel(&upload).await;
    }
    while !app.uploads.unfinished().is_empty() {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Deletes the runs of all projects that do not stay, each hour, for as long as the server is open.
async fn keep_house(main: Weak<App>) {
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(main) = main.upgrade() else { return };
        for app in main.projects.all_open(&main) {
            // A rule from before labels were checked could take all runs for one kind.
            let keep = main.projects.settings(&app.project).keep;
            if let Some(keep) = keep.filter(|keep| retention::check(keep).is_ok()) {
                tidy(&main, &app, keep).await;
            }
        }
    }
}

/// Deletes the runs of one project that do not stay, and notes that in the audit.
async fn tidy(main: &App, app: &App, keep: Keep) {
    let gone = match retention::carry_out(&app.store, keep).await {
        Ok(gone) if gone.is_empty() => return,
        Ok(gone) => gone,
        Err(error) => {
            let project = &app.project;
            tracing::error!(%project, %error, "cannot delete the runs that do not stay");
            return;
        }
    };
    app.runs_changed();
    let project = Some(&app.project).filter(|name| !name.is_main());
    let entries = tidied::entries(gone, now_ms(), project);
    let note = main.store.write(move |writer| {
        let mut entries = entries.iter();
        entries.try_for_each(|entry| writer.note(entry))
    });
    if let Err(error) = note.await {
        tracing::warn!(%error, "cannot write down which runs were deleted");
    }
}
