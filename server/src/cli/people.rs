//! `tidemark people`: who may sign in, while the server is stopped.

use super::output::{json, tell};
use super::{CliError, whose};
use crate::app::OpenError;
use crate::store::Store;
use crate::system::data_folder::DATABASE;
use crate::system::data_lock::{DataLock, For, Unusable};
use crate::system::private;
use crate::system::table::Table;
use crate::who::people::{People, PeopleError};
use api::people::{ChangePerson, NewPerson, NewToken, Person, Role, Scope, Scopes};
use api::routes;
use clap::{Args, Subcommand};
use std::io::Write;
use std::path::{Path, PathBuf};
use timeline::format::{UnixMillis, date_time};

const EXAMPLES: &str = "\
Examples:
  tidemark people add ada --role admin --data /srv/tidemark
  tidemark people list --data /srv/tidemark
  tidemark people token ada --data /srv/tidemark
  tidemark people leave bo --data /srv/tidemark

While the server runs, use its page /people. As soon as there is one person, everybody signs in,
also on loopback.";

/// Options of `tidemark people`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PeopleArgs {
    #[command(subcommand)]
    what: What,
    /// Folder of the database
    #[arg(
        long,
        value_name = "DIR",
        default_value = "tidemark-data",
        global = true
    )]
    data: PathBuf,
    /// Print one JSON document, as the API of a dashboard has it: a list of people, a person, or
    /// the new token
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// List all people
    List,
    /// Add a person and print the token that they sign in with
    Add {
        /// Name of the person
        name: String,
        /// admin, member, reader or guest
        #[arg(long, default_value = "member")]
        role: Role,
    },
    /// Print a new token for a person who lost theirs
    Token {
        /// Name of the person
        name: String,
    },
    /// Change what a person may do
    Role {
        /// Name of the person
        name: String,
        /// admin, member, reader or guest
        role: Role,
    },
    /// End a person's access, with all tokens and sessions
    Leave {
        /// Name of the person
        name: String,
    },
}

/// Looks after people in a data folder that no server uses.
///
/// # Errors
/// For example when a server uses the folder.
pub fn people(args: PeopleArgs) -> Result<(), CliError> {
    private::make_everything_private();
    let runtime = tokio::runtime::Builder::new_multi_thread().build();
    let runtime =
        runtime.map_err(|error| CliError::Failed(format!("cannot start threads: {error}")))?;
    let said = runtime.block_on(run(args))?;
    let written = write!(std::io::stdout(), "{said}");
    written.map_err(|error| CliError::Failed(format!("cannot print: {error}")))
}

/// Why the data folder cannot be had. Another folder, as elsewhere, would not help.
fn not_ours(error: Unusable) -> CliError {
    match error {
        Unusable::InUse(folder) => CliError::Failed(format!(
            "a server uses the data folder {}: stop it first, or use its page {}",
            folder.display(),
            routes::PEOPLE_PAGE
        )),
        error => OpenError::from(error).into(),
    }
}

async fn run(args: PeopleArgs) -> Result<String, CliError> {
    let database = args.data.join(DATABASE);
    if !whose::has_database(&args.data)? {
        // The first person can be added before the server starts for the first time.
        match args.what {
            What::Add { .. } => tell(&format!("{}: a new data folder", args.data.display())),
            _ => return Err(no_data(&args.data)),
        }
    }
    whose::check(&args.data)?;
    let _lock = DataLock::take(&args.data, For::Serving).map_err(not_ours)?;
    let store = Store::open(&database).map_err(OpenError::from)?;
    let people = People::load(&store).await.map_err(OpenError::from)?;
    let now = store.latest_ms();
    let shown = |person: &Person| match args.json {
        true => json(person),
        false => format!("{}: {}\n", person.name, access_of(person)),
    };
    match args.what {
        What::List if args.json => Ok(json(&people.list())),
        What::List => Ok(list(&people)),
        What::Add { name, role } => {
            let added = people
                .add(&NewPerson { name, role }, now)
                .await
                .map_err(said)?;
            Ok(match args.json {
                true => json(&added),
                false => format!("{}\n", added.token.secret),
            })
        }
        What::Token { name } => {
            let person = called(&people, &name)?;
            let new = NewToken {
                name: "from the command line".to_owned(),
                scopes: Scopes::ALL,
                expires_in_s: None,
                person: None,
                project: None,
            };
            let made = people
                .make_token(&person.id, &new, now)
                .await
                .map_err(said)?;
            Ok(match args.json {
                true => json(&made),
                false => format!("{}\n", made.secret),
            })
        }
        What::Role { name, role } => {
            let change = ChangePerson {
                role: Some(role),
                left: None,
            };
            if !role.scopes().has(Scope::Manage) {
                tell_links(&store, &name, now).await?;
            }
            Ok(shown(&changed(&people, &name, &change, now).await?))
        }
        What::Leave { name } => {
            let change = ChangePerson {
                role: None,
                left: Some(true),
            };
            tell_links(&store, &name, now).await?;
            Ok(shown(&changed(&people, &name, &change, now).await?))
        }
    }
}

/// Says that what somebody shared stays open. Other projects have databases of their own.
async fn tell_links(store: &Store, name: &str, now: i64) -> Result<(), CliError> {
    let made = store.read(move |reader| reader.open_shares_by_maker(now));
    let made = made.await.map_err(OpenError::from)?;
    let links = made.iter().find(|(maker, _)| maker == name);
    if let Some((_, n)) = links {
        tell(&format!(
            "{n} {} that {name} made in the project main still open: when the server runs, its \
             page /people revokes all that {name} made, in every project",
            if *n == 1 { "link" } else { "links" }
        ));
    }
    Ok(())
}

async fn changed(
    people: &People,
    name: &str,
    change: &ChangePerson,
    now: i64,
) -> Result<Person, CliError> {
    let person = called(people, name)?;
    people.change(&person.id, change, now).await.map_err(said)
}

fn list(people: &People) -> String {
    let mut table = Table::new(["name", "may", "since"]);
    for person in people.list() {
        let since = date_time(UnixMillis(person.created_ms));
        table.row([person.name.clone(), access_of(&person), since]);
    }
    table.print("")
}

fn access_of(person: &Person) -> String {
    match person.left_ms {
        None => person.role.to_string(),
        Some(at) => format!("nothing since {}", date_time(UnixMillis(at))),
    }
}

fn called(people: &People, name: &str) -> Result<Person, CliError> {
    let found = people.called(name);
    found.ok_or_else(|| CliError::Usage(format!("there is nobody called {name}")))
}

/// A folder that is misspelt has nobody in it, and must not be made.
fn no_data(folder: &Path) -> CliError {
    let why = match folder.is_dir() {
        true => "there is no database in it: name the --data folder of the server",
        false => "there is no such folder",
    };
    CliError::BadInput {
        path: folder.to_owned(),
        why: why.to_owned(),
    }
}

fn said(error: PeopleError) -> CliError {
    CliError::Failed(error.to_string())
}
