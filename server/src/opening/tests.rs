//! Who may enter which project, without HTTP.

use super::*;
use crate::backup::{AtDamage, Depth, Scope as Extent, back_up, restore};
use crate::ingest::Sender;
use crate::projects::folder_of;
use crate::store::{RankOfJob, Slice, Which, WhichEntries};
use crate::system::data_folder::{DATABASE, PROJECTS, RESTORING};
use crate::system::data_lock::Unusable;
use api::ids::PersonId;
use api::people::{NewPerson, NewToken, Scope};
use tempfile::TempDir;
use trace::ranks::Rank;

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
            &team.main.store,
            &team.main.gate.people,
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
    let shown = crate::who::access::Shown {
        token: Some(&made.secret),
        ..Default::default()
    };
    let gate = &team.main.gate;
    let entry = gate
        .check(shown, crate::limits::clients::ClientAddress::UNKNOWN, 2)
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
        .set_member(store, people, &vision, &bo, Some(Role::Reader));
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

/// What was removed for good must not come back, also not from a folder that holds older backups.
#[tokio::test(flavor = "multi_thread")]
async fn a_removed_project_leaves_the_next_backup_and_one_that_is_lost_stays() {
    let team = Team::new().await;
    let (gone, lost) = (
        team.project("gone", None).await,
        team.project("lost", None).await,
    );
    let folder = tempfile::tempdir().unwrap();
    let (to, back) = (folder.path().join("backup"), folder.path().join("restored"));
    let back_up = async || {
        let (config, to) = (team.main.config.clone(), to.clone());
        let work = move || back_up(&config, &to, Extent::Whole, Depth::New);
        tokio::task::spawn_blocking(work).await.unwrap().unwrap()
    };
    assert_eq!(back_up().await.projects.len(), 2);
    let close = ChangeProject {
        closed: Some(true),
        ..ChangeProject::default()
    };
    let (main, projects) = (&team.main, &team.main.projects);
    projects.change(main, &gone, &close, 2).await.unwrap();
    for project in [&gone, &lost] {
        std::fs::remove_dir_all(folder_of(&main.config.data, project)).unwrap();
    }
    let report = back_up().await;
    let [lack] = report.lacking.as_slice() else {
        panic!("{:?}", report.lacking);
    };
    assert!(lack.contains("the project lost has no database"), "{lack}");
    assert!(!folder_of(&to, &gone).exists());
    // As if it had been copied there from elsewhere.
    std::fs::create_dir_all(folder_of(&to, &gone)).unwrap();
    let config = Config::new(back);
    let work = move || restore(&to, &config, AtDamage::Refuse);
    let restored = tokio::task::spawn_blocking(work).await.unwrap().unwrap();
    let names = restored.projects.iter().map(|(name, _)| name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["lost"]);
    assert!(restored.lacking.is_empty(), "{:?}", restored.lacking);
}

/// As long as nobody knows what it holds, it is neither empty nor gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_project_that_cannot_be_opened_says_so_to_those_who_may_enter() {
    let team = Team::new().await;
    let bo = team.add("bo", Role::Guest).await;
    team.add("eve", Role::Guest).await;
    let vision = team.project("vision", None).await;
    let (store, people) = (&team.main.store, &team.main.gate.people);
    let member = Some(Role::Member);
    let set = team
        .main
        .projects
        .set_member(store, people, &vision, &bo, member);
    set.await.unwrap();
    let mark = folder_of(&team.main.config.data, &vision).join(RESTORING);
    std::fs::write(&mark, "").unwrap();
    let (main, projects) = (&team.main, Projects::<App>::load(store).await.unwrap());
    // The project that is still open has its lock.
    team.main.projects.close(&vision);
    projects.open_all(main).await.unwrap();
    assert_eq!(projects.shut(), 1);
    let trouble = async |name: &str| {
        let listed = projects.list(main, &team.entry(name)).await.unwrap();
        let found = listed.into_iter().find(|project| project.name == vision);
        found.and_then(|project| project.trouble)
    };
    let why = trouble("ada").await.unwrap();
    assert!(why.contains("a restore into the data folder"), "{why}");
    let why = trouble("bo").await.unwrap();
    assert!(why.contains("an admin of this server sees why"), "{why}");
    assert_eq!(trouble("eve").await, None);
    let refused = |name: &str| projects.refusal(&team.entry(name), "vision");
    assert!(matches!(refused("bo"), ProjectError::Broken(_)));
    assert!(matches!(refused("eve"), ProjectError::Unknown(_)));
    assert_eq!(projects.shut_for(&team.entry("bo")), Some(vision.clone()));
    assert_eq!(projects.shut_for(&team.entry("eve")), None);
    // Mended, it opens without a start.
    std::fs::remove_file(&mark).unwrap();
    let open = ChangeProject {
        closed: Some(false),
        ..ChangeProject::default()
    };
    projects.change(main, &vision, &open, 3).await.unwrap();
    assert_eq!((projects.shut(), trouble("ada").await), (0, None));
}

/// What cannot be made whole is not begun, so that the same name can be taken once that is mended.
#[tokio::test(flavor = "multi_thread")]
async fn a_project_that_cannot_be_made_leaves_nothing() {
    let team = Team::new().await;
    let name: ProjectName = "vision".parse().unwrap();
    let new = NewProject {
        name: name.clone(),
        everybody: None,
        quota: None,
    };
    let folder = folder_of(&team.main.config.data, &name);
    let create = async || team.main.projects.create(&team.main, &new, 1).await;
    std::fs::create_dir_all(folder.parent().unwrap()).unwrap();
    std::fs::write(&folder, "in the way").unwrap();
    assert!(matches!(create().await, Err(ProjectError::CannotOpen(_))));
    assert!(!team.main.projects.is_known(&name));
    // Files that a removed project left are not taken up by a new one.
    std::fs::remove_file(&folder).unwrap();
    let hash = blake3::hash(b"left").to_hex().to_string();
    let blob = folder.join("blobs").join(&hash[..2]).join(&hash);
    std::fs::create_dir_all(blob.parent().unwrap()).unwrap();
    std::fs::write(&blob, "left").unwrap();
    let refused = create().await.unwrap_err().to_string();
    assert!(refused.contains("holds stored files"), "{refused}");
    assert!(blob.exists() && !folder.join(DATABASE).exists());
    std::fs::remove_dir_all(&folder).unwrap();
    create().await.unwrap();
}

#[test]
fn a_full_disk_is_called_one() {
    let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
    let folder = OpenError::Folder(Unusable::Folder {
        folder: "data".into(),
        source: full,
    });
    for error in [folder, OpenError::Store(StoreError::Full)] {
        let told = not_opened(error);
        assert!(
            matches!(told, ProjectError::Store(StoreError::Full)),
            "{told}"
        );
    }
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

/// Ten minutes later, nobody can look up what it was.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_rule_deletes_is_named_in_the_audit() {
    let team = Team::new().await;
    let vision = team.project("vision", None).await;
    let app = team.main.projects.app(&team.main, &vision).unwrap();
    let open = async |name: &str| {
        let sample = crate::samples::find(name).unwrap();
        sample.open(&app.uploads, Sender::Server).await.unwrap().run
    };
    let (rank, alone) = (open("oom").await, open("streams").await);
    let newest = open("plain_lm").await;
    let ranked = app.store.write(move |writer| {
        let job = "job_wide".parse().unwrap();
        writer.insert_job(&job, "wide", None, 1)?;
        let rank_of_job = RankOfJob { job, rank: Rank(0) };
        writer.join_job(&rank_of_job, &rank)?;
        writer.reader().run(&alone)
    });
    let alone = ranked.await.unwrap();
    let keep = Keep {
        newest: 1,
        ..Keep::default()
    };
    tidy(&team.main, &app, keep).await;
    let left = app
        .store
        .read(|reader| reader.runs(Which::Live, &[], Slice::ALL));
    let left: Vec<_> = left.await.unwrap().into_iter().map(|run| run.id).collect();
    assert_eq!(left, [newest]);
    let audit = team
        .main
        .store
        .read(|reader| reader.audit(&WhichEntries::default(), Slice::ALL));
    let of_server = audit.await.unwrap().into_iter().filter(|entry| {
        let project = entry.project.as_ref();
        entry.who == "the server" && project == Some(&vision)
    });
    let mut said: Vec<_> = of_server
        .map(|entry| (entry.action, entry.subject))
        .collect();
    said.sort();
    let expected = [
        ("delete_job", "wide (job_wide) with its run".to_owned()),
        ("delete_run", format!("{} ({})", alone.name, alone.id)),
    ];
    assert_eq!(
        said,
        expected.map(|(action, subject)| (action.to_owned(), subject))
    );
}
