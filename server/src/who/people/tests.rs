//! People and tokens in the memory of a server.

use super::*;
use crate::who::oidc::Identity;

async fn people() -> (tempfile::TempDir, People) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("db")).unwrap();
    let people = People::load(&store).await.unwrap();
    (folder, people)
}

fn new(name: &str, role: Role) -> NewPerson {
    let name = name.to_owned();
    NewPerson { name, role }
}

async fn again(people: &People) -> People {
    People::load(&people.store).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_person_is_an_admin_and_one_always_stays() {
    let (_folder, people) = people().await;
    let refused = people.add(&new("bo", Role::Member), 1).await.unwrap_err();
    assert_eq!(refused.to_string(), "the first person must be an admin");
    let ada = people.add(&new("Ada", Role::Admin), 1).await.unwrap();
    let twice = people.add(&new("ADA", Role::Member), 2).await.unwrap_err();
    assert_eq!(twice.to_string(), "there is somebody called ADA already");
    for change in [
        ChangePerson {
            left: Some(true),
            role: None,
        },
        ChangePerson {
            left: None,
            role: Some(Role::Member),
        },
    ] {
        let refused = people.change(&ada.person.id, &change, 3).await.unwrap_err();
        assert!(refused.to_string().contains("stay an admin"), "{refused}");
    }
    people.add(&new("bo", Role::Admin), 4).await.unwrap();
    let left = ChangePerson {
        left: Some(true),
        role: None,
    };
    people.change(&ada.person.id, &left, 5).await.unwrap();
    for people in [people.clone(), again(&people).await] {
        assert_eq!(people.of_secret(&ada.token.secret, 6), None);
        assert_eq!(people.active(&ada.person.id), None);
        assert_eq!(people.list().len(), 2, "what she did stays hers");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_first_people_at_once_one_comes() {
    let (_folder, people) = people().await;
    let (ada, bo) = (new("ada", Role::Admin), new("bo", Role::Admin));
    let (one, two) = tokio::join!(
        people.add_first(&ada, Scopes::ALL, None, 1),
        people.add_first(&bo, Scopes::ALL, None, 1)
    );
    assert_eq!(one.unwrap().person.name, "ada");
    let refused = two.unwrap_err();
    let is_conflict = matches!(refused, PeopleError::Store(StoreError::Conflict(_)));
    assert!(is_conflict && refused.to_string().contains("ask them to add you"));
    assert_eq!(people.list().len(), 1);
}

fn change_to(role: Option<Role>, left: Option<bool>) -> ChangePerson {
    ChangePerson { role, left }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_at_once_do_not_undo_each_other() {
    let (_folder, people) = people().await;
    let add = async |name: &str, role| people.add(&new(name, role), 1).await.unwrap().person.id;
    let (ada, bo) = (add("ada", Role::Admin).await, add("bo", Role::Admin).await);
    let cy = add("cy", Role::Member).await;
    let (leaves, reads) = (
        change_to(None, Some(true)),
        change_to(Some(Role::Reader), None),
    );
    let (one, two) = tokio::join!(
        people.change(&ada, &reads, 2),
        people.change(&bo, &reads, 2)
    );
    assert_eq!([one.is_ok(), two.is_ok()], [true, false]);
    let token = NewToken {
        name: "CI".to_owned(),
        scopes: Scopes::ALL,
        expires_in_s: None,
        person: None,
        project: None,
    };
    let (left, changed, made) = tokio::join!(
        people.change(&cy, &leaves, 3),
        people.change(&cy, &reads, 3),
        people.make_token(&cy, &token, 3),
    );
    assert!(left.is_ok() && changed.is_ok() && made.is_err());
    for people in [people.clone(), again(&people).await] {
        let is_admin = |id| people.active(id).map(|person| person.role == Role::Admin);
        assert_eq!([is_admin(&ada), is_admin(&bo)], [Some(false), Some(true)]);
        assert_eq!(people.person(&cy).unwrap().left_ms, Some(3));
        assert!(people.tokens_of(&cy).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_newcomers_at_once_one_is_an_admin_and_nobody_comes_twice() {
    let (_folder, people) = people().await;
    let identity = Identity {
        issuer: "https://login.example".to_owned(),
        subject: "u1".to_owned(),
        email: None,
        names: vec!["cy".to_owned()],
    };
    let (ada, bo) = (new("ada", Role::Reader), new("bo", Role::Reader));
    let (one, two, three, four, five) = tokio::join!(
        people.welcome(&ada, 1),
        people.welcome(&bo, 1),
        people.welcome(&bo, 1),
        people.identified(&identity, Role::Reader, 1),
        people.identified(&identity, Role::Reader, 1),
    );
    assert!(one.is_ok() && two.is_ok() && three.is_ok());
    assert_eq!(four.unwrap(), five.unwrap());
    for people in [people.clone(), again(&people).await] {
        let listed = people.list();
        let said: Vec<_> = listed.iter().map(|p| (p.name.as_str(), p.role)).collect();
        let expected = [
            ("ada", Role::Admin),
            ("bo", Role::Reader),
            ("cy", Role::Reader),
        ];
        assert_eq!(said, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_ends_when_it_is_ended_by_itself_and_with_its_person() {
    let (_folder, people) = people().await;
    people.add(&new("ada", Role::Admin), 1).await.unwrap();
    let bo = people.add(&new("bo", Role::Reader), 1).await.unwrap();
    let id = &bo.person.id;
    let asked = NewToken {
        name: "CI".to_owned(),
        scopes: Scopes::ALL,
        expires_in_s: Some(10),
        person: None,
        project: None,
    };
    let token = people.make_token(id, &asked, 1000).await.unwrap();
    assert!(token.secret.starts_with("tidemark_") && token.secret.len() > 64);
    let scopes = |people: &People, now_ms| {
        let shown = people.of_secret(&token.secret, now_ms);
        shown.map(|shown| shown.scopes.to_string())
    };
    let reads = Some("read".to_owned());
    assert_eq!(
        scopes(&people, 10_999),
        reads,
        "a reader's token only reads"
    );
    assert_eq!(scopes(&people, 11_000), None, "its time is over");
    let member = ChangePerson {
        role: Some(Role::Member),
        left: None,
    };
    people.change(id, &member, 2000).await.unwrap();
    assert_eq!(
        scopes(&again(&people).await, 2000),
        Some("read, upload, manage".to_owned())
    );
    people.note_use(&token.token.id, 3000).await.unwrap();
    assert_eq!(again(&people).await.tokens_of(id)[0].used_ms, Some(3000));
    people.end_token(&token.token.id).await.unwrap();
    assert_eq!(scopes(&people, 2000), None);
    assert_eq!(scopes(&again(&people).await, 2000), None);
    let empty = NewToken {
        scopes: Scopes::NONE,
        ..asked
    };
    assert!(people.make_token(id, &empty, 1).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn names_hide_nothing() {
    let (_folder, people) = people().await;
    let check = async |name: &str, ok: bool| {
        let added = people.add(&new(name, Role::Admin), 1).await;
        assert_eq!(added.is_ok(), ok, "{name:?}");
    };
    check("", false).await;
    check("  ", false).await;
    check("a\u{202e}b", false).await;
    check("a\nb", false).await;
    check(&"x".repeat(65), false).await;
    check(" Zoë Ångström ", true).await;
    assert_eq!(people.list()[0].name, "Zoë Ångström");
}

#[test]
fn nobody_has_a_name_that_means_somebody_else() {
    let check = |name: &str, taken: bool| assert_eq!(is_nobodys(name), taken, "{name}");
    check("the server's token", true);
    check("The Server\u{2019}s  TOKEN", true);
    check("somebody with a link", true);
    check("Somebody on this machine", true);
    check("somebody", false);
    check("ada", false);
}

#[tokio::test]
async fn such_a_name_is_refused() {
    let (_folder, people) = people().await;
    let refused = people.add(&new("The server's token", Role::Admin), 0).await;
    assert!(matches!(refused, Err(PeopleError::Refused(_))));
    people.add(&new("ada", Role::Admin), 0).await.unwrap();
}
