//! People whom a provider signs in.

use super::{People, PeopleError, is_nobodys, refuse};
use crate::store::{IdentityRow, StoreResult};
use crate::system::plain::plain;
use crate::who::oidc::Identity;
use api::people::{NewPerson, Person, Role};

impl People {
    /// The person whom a provider of OpenID Connect has signed in. Who comes for the first time is
    /// the person whom an admin has added under the verified address of mail, or else a new one
    /// with this role; the very first person is an admin. Other names prove nothing, because people
    /// may choose them at the provider.
    ///
    /// # Errors
    /// [`PeopleError`], for example if the person's access has ended.
    pub async fn identified(
        &self,
        identity: &Identity,
        role: Role,
        now_ms: i64,
    ) -> Result<Person, PeopleError> {
        let _changing = self.changing.lock().await;
        let (issuer, subject) = (identity.issuer.clone(), identity.subject.clone());
        let read = self
            .store
            .read(move |reader| reader.identified(&issuer, &subject));
        let person = match read.await? {
            Some(known) => self.person(&known)?,
            None => self.met(identity, role, now_ms).await?,
        };
        match person.left_ms {
            None => Ok(person),
            Some(_) => {
                refuse("your access has ended; an admin of this server can let you in again")
            }
        }
    }

    /// Notes who somebody is for a provider.
    async fn met(
        &self,
        identity: &Identity,
        role: Role,
        now_ms: i64,
    ) -> Result<Person, PeopleError> {
        let person = match self.expected(identity).await? {
            Some(person) => person,
            None => self.newcomer(identity, role, now_ms).await?,
        };
        let row = IdentityRow {
            issuer: identity.issuer.clone(),
            subject: identity.subject.clone(),
            person: person.id.clone(),
            created_ms: now_ms,
        };
        self.store.write(move |w| w.insert_identity(&row)).await?;
        Ok(person)
    }

    /// The person whom an admin has added under this address of mail, and who has not come yet. A
    /// person who has come is somebody else: providers give addresses to others, too.
    async fn expected(&self, identity: &Identity) -> StoreResult<Option<Person>> {
        let email = identity.email.as_deref();
        let Some(person) = email.and_then(|email| self.called(email)) else {
            return Ok(None);
        };
        let id = person.id.clone();
        let came = self.store.read(move |reader| reader.is_identified(&id));
        Ok((!came.await?).then_some(person))
    }

    async fn newcomer(
        &self,
        identity: &Identity,
        role: Role,
        now_ms: i64,
    ) -> Result<Person, PeopleError> {
        // Room for a number, if others have the same name.
        let fit = |name: &str| -> String {
            let short: String = plain(name).chars().take(NewPerson::MAX_NAME - 6).collect();
            short.trim().to_owned()
        };
        // Nobody may take the address of somebody else as a name.
        let others = identity.names.iter().map(|name| name.replace('@', " at "));
        let names = identity.email.clone().into_iter().chain(others);
        let mut names = names.map(|name| fit(&name));
        let name = names.find(|name| !name.is_empty() && !is_nobodys(name));
        let name = name.unwrap_or_else(|| "somebody".to_owned());
        let numbered = (2..1000).map(|n| format!("{name} ({n})"));
        let mut free = [name.clone()].into_iter().chain(numbered);
        let name = free
            .find(|name| self.called(name).is_none())
            .unwrap_or(name);
        self.insert_newcomer(&NewPerson { name, role }, now_ms)
            .await
    }
}
