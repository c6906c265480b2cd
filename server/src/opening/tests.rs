//! Who may enter which project, without HTTP.

use super::*;
use crate::backup::{AtDamage, Depth, Scope as Extent, back_up, restore};
use crate::data_folder::{PROJECTS, RESTORING};
use crate::ingest::Sender;
use crate::projects::folder_of;
use api::ids::PersonId;
use api::people::{NewPerson, NewToken, Scope};
use tempfile::TempDir;

struct Team {
    main: Arc<App>,
    _folder: TempDir,
}

impl Team {
    async fn new() -> Team {
        let folder = tempfile::tempdir().unwrap();
        let main = App::open(Config::new(folder.path().join("data")))
            .await
            .unwrap();
        let team = Team {
            main,
            _folder: folder,
        };
        team.add("ada", Role::Admin).await;
        team
    }

    async fn add(&self, name: &str, role: Role) -> PersonId {
        let new = NewPerson {
            name: name.to_owned(),
            role,
        };
        self.main.gate.people.add(&new, 1).await.unwrap().person.id
    }

    async fn project(&self, name: &str, everybody: Option<Role>) -> ProjectName {
        let new = NewProject {
            name: name.parse().unwrap(),
            everybody,
            quota: None,
        };
        self.main
            .projects
            .create(&self.main, &new, 1)
            .await
            .unwrap();
        new.name
    }

    fn entry(&self, name: &str) -> Entry {
        let person = self.main.gate.people.called(name).unwrap();
        self.main.gate.signed_in(person)
    }

    /// `main admin, vision reader`.
    fn sees(&self, entry: &Entry) -> String {
        let places = self.main.projects.visible(entry);
        let words = places
            .iter()
            .map(|place| format!("{} {}", place.project, place.role));
        words.collect::<Vec<_>>().join(", ")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_enters_what_they_were_let_into() {
    let team = Team::new().await;
    let bo = team.add("bo", Role::Member).await;
    let eve = team.add("eve", Role::Guest).await;
    team.add("rex", Role::Reader).await;
    let vision = team.project("vision", None).await;
    let open = team.project("open", Some(Role::Reader)).await;
    let set = async |project: &ProjectName, person: &PersonId, role| {
        let set = team.main.projects.set_member(
            (&team.main.store, &team.main.gate.people),
            project,
            person,
            role,
        );
        set.await.map_err(|error| error.to_string())
    };
    set(&vision, &bo, Some(Role::Reader)).await.unwrap();
    set(&vision, &eve, Some(Role::Member)).await.unwrap();
    let check = |name: &str, expected: &str| {
        assert_eq!(team.sees(&team.entry(name)), expected, "{name}");
    };
    check("ada", "main admin, open admin, vision admin");
    check("bo", "main member, open reader, vision reader");
    check("eve", "vision member");
    check("rex", "main reader, open reader");
    set(&open, &eve, Some(Role::Admin)).await.unwrap();
    set(&vision, &eve, None).await.unwrap();
    assert_eq!(team.sees(&team.entry("eve")), "open admin");
    let refused = set(&vision, &bo, Some(Role::Guest)).await.unwrap_err();
    assert_eq!(refused, "in a project, people are admin, member or reader");
    let refused = set(&ProjectName::main(), &bo, Some(Role::Admin))
        .await
        .unwrap_err();
    assert!(refused.contains("first project"), "{refused}");
    // One change waits for another, so that the same one is known and stored last.
    let changing = team.main.projects.changing.lock().await;
    let waits = set(&open, &eve, Some(Role::Reader));
    let waited = tokio::time::timeout(Duration::from_millis(300), waits).await;
    assert!(waited.is_err(), "two changes at once");
    drop(changing);
    // All of it is there after a start.
    let again = Projects::<App>::load(&team.main.store).await.unwrap();
    let members = again.members(&team.main.gate.people, &open);
    let named: Vec<_> = members.iter().map(|m| (m.name.as_str(), m.role)).collect();
    assert_eq!(named, [("eve", Role::Admin)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_one_project_opens_no_other_one() {
    let team = Team::new().await;
    let vision = team.project("vision", None).await;
    let ada = team.main.gate.people.called("ada").unwrap();
    let new = NewToken {
        name: "CI".to_owned(),
        scopes: [Scope::Read, Scope::Upload].into_iter().collect(),
        expires_in_s: None,
        person: None,
        project: Some(vision.clone()),
    };
    let made = team
        .main
        .gate
        .people
        .make_token(&ada.id, &new, 1)
        .await
        .unwrap();
    let shown = crate::access::Shown {
        token: Some(&made.secret),
        ..Default::default()
    };
    let gate = &team.main.gate;
    let entry = gate
        .check(shown, crate::clients::ClientAddress::UNKNOWN, 2)
        .unwrap();
    assert_eq!(team.sees(&entry), "vision admin");
    assert!(!entry.is_admin(), "not of the server");
    assert!(!entry.may_on_server(Scope::Read));
    assert_eq!(team.main.projects.reach(&entry).to_string(), "read, upload");
    let closed = ChangeProject {
        closed: Some(true),
        ..ChangeProject::default()
    };
    team.main
        .projects
        .change(&team.main, &vision, &closed, 3)
        .await
        .unwrap();
    assert_eq!(team.sees(&entry), "", "not the first project instead");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_the_database_does_not_know_is_closed_until_an_admin_opens_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir_all(folder_of(&data, &"lost".parse().unwrap())).unwrap();
    std::fs::create_dir_all(data.join(PROJECTS).join("Not A Project")).unwrap();
    let main = App::open(Config::new(data)).await.unwrap();
    let team = Team {
        main,
        _folder: folder,
    };
    team.add("ada", Role::Admin).await;
    team.add("bo", Role::Member).await;
    assert_eq!(team.sees(&team.entry("ada")), "main admin");
    let (main, projects) = (&team.main, &team.main.projects);
    let listed = projects.list(main, &team.entry("ada")).await.unwrap();
    assert!(
        listed[1].closed_ms.is_some(),
        "an admin sees that it is closed"
    );
    let open = ChangeProject {
        closed: Some(false),
        ..ChangeProject::default()
    };
    let lost = "lost".parse().unwrap();
    projects.change(main, &lost, &open, 2).await.unwrap();
    assert_eq!(team.sees(&team.entry("ada")), "main admin, lost admin");
    assert_eq!(team.sees(&team.entry("bo")), "main member");
}

/// A backup takes all projects, and a restore that was interrupted goes on.
#[tokio::test(flavor = "multi_thread")]
async fn all_projects_are_backed_up_and_come_back() {
    let team = Team::new().await;
    let vision = team.project("vision", None).await;
    let bo = team.add("bo", Role::Guest).await;
    let (store, people) = (&team.main.store, &team.main.gate.people);
    let set = team
        .main
        .projects
        .set_member((store, people), &vision, &bo, Some(Role::Reader));
    set.await.unwrap();
    let app = team.main.projects.app(&team.main, &vision).unwrap();
    let sample = crate::samples::find("streams").unwrap();
    let run = sample.open(&app.uploads, Sender::Server).await.unwrap().run;
    let folder = tempfile::tempdir().unwrap();
    let (to, config) = (folder.path().join("backup"), team.main.config.clone());
    let (from, data) = (to.clone(), folder.path().join("restored"));
    let back = data.clone();
    let work = move || {
        let report = back_up(&config, &to, Extent::Whole, Depth::New)?;
        assert_eq!((report.runs, report.projects[0].1.runs), (0, 1));
        // Once more: the folder of a backup may hold those of projects.
        back_up(&config, &to, Extent::Whole, Depth::All)?;
        let restored = restore(&from, &Config::new(back.clone()), AtDamage::Refuse)?;
        assert_eq!(restored.projects[0].1.runs, Some(1));
        // As if the power had failed before the first project was called complete.
        std::fs::write(back.join(RESTORING), "").unwrap();
        restore(&from, &Config::new(back), AtDamage::Refuse)
    };
    let again = tokio::task::spawn_blocking(work).await.unwrap().unwrap();
    assert!(again.projects.is_empty(), "what is done stays done");
    let main = App::open(Config::new(data)).await.unwrap();
    let team = Team {
        main,
        _folder: folder,
    };
    assert_eq!(team.sees(&team.entry("bo")), "vision reader");
    let app = team.main.projects.app(&team.main, &vision).unwrap();
    let there = app.store.read(move |reader| reader.has_run(&run)).await;
    assert!(there.unwrap());
}

/// Only a closed one: a folder that is missing by accident must not take the members along.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_project_without_a_folder_is_forgotten() {
    let team = Team::new().await;
    let (closed, lost) = (
        team.project("closed", None).await,
        team.project("lost", None).await,
    );
    let change = ChangeProject {
        closed: Some(true),
        ..ChangeProject::default()
    };
    let (main, projects) = (&team.main, &team.main.projects);
    projects.change(main, &closed, &change, 2).await.unwrap();
    let names = async || {
        let known = Projects::<App>::load(&main.store).await.unwrap();
        known.open_all(main).await.unwrap();
        known
            .names()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names().await,
        ["main", "closed", "lost"],
        "its data are still there"
    );
    for project in [&closed, &lost] {
        std::fs::remove_dir_all(folder_of(&main.config.data, project)).unwrap();
    }
    assert_eq!(names().await, ["main", "lost"]);
    assert_eq!(names().await, ["main", "lost"], "also in the database");
}
