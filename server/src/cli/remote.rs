//! A dashboard over HTTP, for commands that use one.

use super::progress::Shown;
use super::{CliError, files};
use crate::system::plain::plain;
use crate::who::host_names::Authority;
use api::ids::JobId;
use api::problem::Problem;
use api::projects::{HEADER, ProjectName, in_project, named_by};
use api::routes;
use api::runs::FinishedUpload;
use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Read;
use std::path::Path;
use std::time::Duration;
use trace::ranks::Rank;
use ureq::http::{Response, StatusCode};
use ureq::typestate::WithBody;
use ureq::{Agent, Body, RequestBuilder, SendBody};

/// Enough for a comparison of eight runs with all its stacks; a larger answer is not from a
/// dashboard.
const LARGEST_ANSWER: u64 = 256 << 20;

/// For how long a dashboard may say nothing: it computes no answer for longer, even if all cores
/// are busy.
const SILENCE: Duration = Duration::from_secs(15 * 60);
/// The same after a file was sent: the server reads it first.
const SILENCE_AFTER_FILE: Duration = Duration::from_secs(2 * 3600);

/// Where the dashboard is.
#[derive(Args)]
pub struct RemoteArgs {
    /// The dashboard
    #[arg(
        long,
        value_name = "URL",
        env = "TIDEMARK_SERVER",
        default_value = "http://127.0.0.1:7878"
    )]
    server: String,
    /// The project, where the dashboard has several and the token is not of one
    #[arg(long, value_name = "NAME", env = "TIDEMARK_PROJECT")]
    project: Option<ProjectName>,
    /// Its access token; prefer the variable, since others can read command lines
    #[arg(long, env = "TIDEMARK_TOKEN", hide_env_values = true)]
    token: Option<String>,
    #[command(flatten)]
    way: Way,
}

/// How a token may travel.
#[derive(Args, Clone, Copy)]
pub struct Way {
    /// Send the token unencrypted, over http:// to another machine: everybody on the way can read
    /// it
    #[arg(long, env = "TIDEMARK_PLAIN_HTTP")]
    plain_http: bool,
}

impl Way {
    /// Checks that nobody on the way to a dashboard can read a token.
    ///
    /// # Errors
    /// When somebody could.
    pub fn check(self, server: &str, token: Option<&str>) -> Result<(), CliError> {
        let is_secret = token.is_some_and(|token| !token.is_empty());
        let host = server.split_once("://").and_then(|(scheme, rest)| {
            let is_plain = scheme.eq_ignore_ascii_case("http");
            is_plain.then(|| rest.split(['/', '?']).next().unwrap_or_default())
        });
        let is_here = |host: &str| Authority::parse(host).is_some_and(|host| host.is_loopback());
        match host.filter(|host| !is_here(host)) {
            Some(host) if is_secret && !self.plain_http => Err(CliError::Usage(format!(
                "the access token would go to {host} unencrypted: give an https:// address, or \
                 --plain-http (TIDEMARK_PLAIN_HTTP=1) if nobody else can read on the way"
            ))),
            _ => Ok(()),
        }
    }
}

impl RemoteArgs {
    /// The project that was named.
    pub fn project(&self) -> Option<&ProjectName> {
        self.project.as_ref()
    }
}

/// Refuses what is no address: a host alone is the most frequent slip.
fn check_address(server: &str) -> Result<(), CliError> {
    let scheme = server.split_once("://").map(|(scheme, _)| scheme);
    let is_known = |scheme: &str| {
        ["http", "https"]
            .iter()
            .any(|s| scheme.eq_ignore_ascii_case(s))
    };
    match scheme.is_some_and(is_known) {
        true => Ok(()),
        false => Err(CliError::Usage(format!(
            "--server `{server}`: the address of a dashboard begins with http:// or https://"
        ))),
    }
}

/// A dashboard.
pub struct Remote<'a> {
    agent: Agent,
    server: &'a str,
    token: Option<&'a str>,
    project: Option<&'a ProjectName>,
}

impl<'a> Remote<'a> {
    /// The dashboard that the options name.
    ///
    /// # Errors
    /// When it is no address, and when the token would go there unencrypted.
    pub fn new(args: &'a RemoteArgs) -> Result<Remote<'a>, CliError> {
        check_address(&args.server)?;
        args.way.check(&args.server, args.token.as_deref())?;
        Ok(Remote::at(&args.server, args.token.as_deref()).of(args.project.as_ref()))
    }

    /// The same dashboard, for a project of it.
    pub fn of(self, project: Option<&'a ProjectName>) -> Remote<'a> {
        Remote { project, ..self }
    }

    /// The dashboard at an address.
    pub fn at(server: &'a str, token: Option<&'a str>) -> Remote<'a> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // Another host that answers would count as the dashboard.
            .max_redirects(0)
            .timeout_connect(Some(Duration::from_secs(10)))
            .timeout_per_read(Some(SILENCE))
            .user_agent(concat!("tidemark/", env!("CARGO_PKG_VERSION")));
        Remote {
            agent: config.build().new_agent(),
            server: server.trim_end_matches('/'),
            // A variable that is set to nothing, as CI does for a secret that is not there.
            token: token.filter(|token| !token.is_empty()),
            project: None,
        }
    }

    /// The address of a page, in the project that was named, for this machine: the server may know
    /// itself by another name.
    pub fn page(&self, path: &str) -> String {
        match self.project {
            Some(project) => self.link(&in_project(path, project)),
            None => self.link(path),
        }
    }

    /// The same, in the project to which a file was sent. A token may be of one project, which
    /// nobody has named.
    pub fn page_beside(&self, path: &str, sent: &FinishedUpload) -> String {
        self.page_in(named_by(&sent.url).as_ref(), path)
    }

    /// The same, in the project that an answer says it is about, if it says one.
    pub fn page_in(&self, project: Option<&ProjectName>, path: &str) -> String {
        match project {
            Some(project) => self.link(&in_project(path, project)),
            None => self.page(path),
        }
    }

    fn link(&self, path: &str) -> String {
        format!("{}{path}", self.server)
    }

    /// Reads a document.
    ///
    /// # Errors
    /// When the server cannot be reached, or refuses.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CliError> {
        let request = self.authorized(self.agent.get(self.link(path)));
        self.answer(request.call(), CliError::Failed)
    }

    /// Reads a document; `None` where the server has no such thing, or no longer.
    ///
    /// # Errors
    /// When the server cannot be reached, or refuses.
    pub fn get_if_there<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, CliError> {
        let answer = self.answered_if_there(path)?;
        answer
            .map(|mut answer| read_json(answer.body_mut()))
            .transpose()
    }

    /// Opens an answer that is too large for memory; `None` where the server has no such thing, or
    /// no longer.
    ///
    /// # Errors
    /// When the server cannot be reached, or refuses.
    pub fn open_if_there(
        &self,
        path: &str,
    ) -> Result<Option<impl Read + Send + 'static>, CliError> {
        let answer = self.answered_if_there(path)?;
        Ok(answer.map(|answer| answer.into_body().into_reader()))
    }

    fn answered_if_there(&self, path: &str) -> Result<Option<Response<Body>>, CliError> {
        let request = self.authorized(self.agent.get(self.link(path)));
        self.if_there(request.call())
    }

    /// The answer; `None` where the server has no such thing, or no longer.
    fn if_there(
        &self,
        answer: Result<Response<Body>, ureq::Error>,
    ) -> Result<Option<Response<Body>>, CliError> {
        let mut answer = answer.map_err(|error| self.unreachable(&error))?;
        match answer.status() {
            status if status.is_success() => Ok(Some(answer)),
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(None),
            _ => Err(self.refused(&mut answer, CliError::Failed)),
        }
    }

    /// Opens an answer that is too large for memory, such as an export.
    ///
    /// # Errors
    /// When the server cannot be reached, or refuses.
    pub fn open(&self, path: &str) -> Result<impl Read + Send + 'static, CliError> {
        let request = self.authorized(self.agent.get(self.link(path)));
        let mut answer = request.call().map_err(|error| self.unreachable(&error))?;
        match answer.status().is_success() {
            true => Ok(answer.into_body().into_reader()),
            false => Err(self.refused(&mut answer, CliError::Failed)),
        }
    }

    fn unreachable(&self, error: &ureq::Error) -> CliError {
        CliError::Failed(format!("cannot reach {}: {error}", self.server))
    }

    /// Reads the pages of a list until the wanted entry is found, if there is one.
    ///
    /// # Errors
    /// When the server cannot be reached, or refuses.
    pub fn find<T: DeserializeOwned>(
        &self,
        list: &str,
        mut is_wanted: impl FnMut(&T) -> bool,
    ) -> Result<Option<T>, CliError> {
        let mut offset = Some(0);
        while let Some(from) = offset {
            let page: Vec<T> = self.get(&api::page::from(list, from))?;
            offset = api::page::next(from, page.len());
            if let Some(found) = page.into_iter().find(|entry| is_wanted(entry)) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Sends a document and reads the answer.
    ///
    /// # Errors
    /// When the server cannot be reached, or refuses.
    pub fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        document: &impl Serialize,
    ) -> Result<T, CliError> {
        self.send(self.agent.post(self.link(path)), document)
    }

    fn send<T: DeserializeOwned>(
        &self,
        request: RequestBuilder<WithBody>,
        document: &impl Serialize,
    ) -> Result<T, CliError> {
        let body = serde_json::to_string(document).expect("requests are plain data");
        let request = self
            .authorized(request)
            .header("content-type", "application/json");
        self.answer(request.send(&body), CliError::Failed)
    }

    /// Changes something and reads its new state.
    ///
    /// # Errors
    /// When the server cannot be reached, or refuses.
    pub fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        document: &impl Serialize,
    ) -> Result<T, CliError> {
        self.send(self.agent.patch(self.link(path)), document)
    }

    /// Deletes something, unless it is gone already.
    ///
    /// # Errors
    /// When the server cannot be reached, or refuses.
    pub fn delete(&self, path: &str) -> Result<(), CliError> {
        let request = self.authorized(self.agent.delete(self.link(path)));
        self.if_there(request.call()).map(drop)
    }

    /// Uploads a file, perhaps as a rank of a job. If a person is watching, it shows a line of
    /// progress.
    ///
    /// # Errors
    /// When it cannot be read or sent, or is refused.
    pub fn upload(
        &self,
        path: &Path,
        in_job: Option<(&JobId, Rank)>,
    ) -> Result<FinishedUpload, CliError> {
        let bad = |why: String| CliError::BadInput {
            path: path.to_owned(),
            why,
        };
        let file = files::open(path).map_err(bad)?;
        let size =
            files::size_of(&file).map_err(|error| bad(format!("cannot read it: {error}")))?;
        let name = match path.file_name().unwrap_or(path.as_os_str()) {
            name if name == "-" => "stdin".into(),
            name => name.to_string_lossy(),
        };
        let name = utf8_percent_encode(&name, NON_ALPHANUMERIC).to_string();
        let route = match in_job {
            Some((job, rank)) => routes::upload_into(&name, job, rank),
            None => routes::upload_named(&name),
        };
        let request = self
            .authorized(self.agent.put(self.link(&route)))
            .config()
            .timeout_per_read(Some(SILENCE_AFTER_FILE))
            .build()
            .header("content-type", "application/octet-stream")
            // Whoever is refused hears why, not that the connection broke while the file was sent.
            .header("expect", "100-continue");
        // What a pipe holds is sent in pieces of which each tells its size.
        let request = match size {
            Some(size) => request.header("content-length", size.to_string()),
            None => request,
        };
        let mut body = Shown::new(file, size, ", the server is storing it");
        let answer = request.send(SendBody::from_reader(&mut body));
        self.answer(answer, bad)
    }

    fn authorized<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        let request = match self.project {
            Some(project) => request.header(HEADER, project.as_str()),
            None => request,
        };
        match self.token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    fn answer<T: DeserializeOwned>(
        &self,
        answer: Result<Response<Body>, ureq::Error>,
        bad: impl Fn(String) -> CliError,
    ) -> Result<T, CliError> {
        let mut answer = answer.map_err(|error| self.unreachable(&error))?;
        match answer.status().is_success() {
            true => read_json(answer.body_mut()),
            false => Err(self.refused(&mut answer, bad)),
        }
    }

    fn refused(&self, answer: &mut Response<Body>, bad: impl Fn(String) -> CliError) -> CliError {
        use api::problem::ProblemCode::{BadSnapshot, TooLarge, Unauthorized};
        let status = answer.status();
        if status.is_redirection() {
            let to = answer.headers().get("location");
            let to = to.and_then(|to| to.to_str().ok()).unwrap_or("nowhere");
            return CliError::Failed(format!(
                "{} leads on to {}, and is not followed: check --server",
                self.server,
                plain(to)
            ));
        }
        match read_json::<Problem>(answer.body_mut()) {
            Ok(problem) if matches!(problem.code, BadSnapshot | TooLarge) => bad(problem.detail),
            Ok(problem) if problem.code == Unauthorized => CliError::Failed(self.locked_out()),
            Ok(problem) => CliError::Failed(format!("{}: {}", problem.title, problem.detail)),
            Err(_) => CliError::Failed(format!("the server answered {status} without a reason")),
        }
    }

    /// The server says the same of a token that it does not know and of none, because it tells
    /// strangers little. Here it is known which of the two it was.
    fn locked_out(&self) -> String {
        match self.token {
            None => format!(
                "{} needs an access token: set TIDEMARK_TOKEN, or give --token",
                self.server
            ),
            Some(_) => format!(
                "{} does not know this access token, or it has ended: see what TIDEMARK_TOKEN or \
                 --token is",
                self.server
            ),
        }
    }
}

fn read_json<T: DeserializeOwned>(body: &mut Body) -> Result<T, CliError> {
    let text = body.with_config().limit(LARGEST_ANSWER).read_to_string();
    let text =
        text.map_err(|error| CliError::Failed(format!("cannot read the answer: {error}")))?;
    serde_json::from_str(&text).map_err(|_| {
        CliError::Failed("this does not answer like a Tidemark server; check --server".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_token_goes_unencrypted_to_this_machine_only() {
        let check = |server: &str, token: &str, plain_http: bool, ok: bool| {
            let way = Way { plain_http };
            assert_eq!(way.check(server, Some(token)).is_ok(), ok, "{server}");
        };
        for here in [
            "http://127.0.0.1:7878",
            "http://localhost/",
            "http://[::1]:7878",
        ] {
            check(here, "secret", false, true);
        }
        for there in [
            "http://tidemark:7878",
            "HTTP://10.0.0.1/a",
            "http://a@127.0.0.1@b",
        ] {
            check(there, "secret", false, false);
            check(there, "secret", true, true);
            check(there, "", false, true);
        }
        check("https://tidemark.example", "secret", false, true);
    }

    #[test]
    fn an_address_has_a_scheme() {
        let check = |server: &str, ok: bool| {
            assert_eq!(check_address(server).is_ok(), ok, "{server}");
        };
        check("http://127.0.0.1:7878", true);
        check("HTTPS://tidemark.example/", true);
        check("tidemark.example", false);
        check("tidemark:7878", false);
        check("ftp://tidemark.example", false);
        check("", false);
    }

    /// A hostile dashboard, or one that has moved.
    #[test]
    fn another_address_is_told_and_not_followed() {
        use std::net::TcpListener;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut head = [0; 4096];
            let _ = client.read(&mut head).unwrap();
            let answer = "HTTP/1.1 302 Found\r\nlocation: http://10.0.0.1/a\r\n\
                          content-length: 0\r\nconnection: close\r\n\r\n";
            client.write_all(answer.as_bytes()).unwrap();
        });
        let why = Remote::at(&url, Some("secret")).get::<Vec<String>>("/api/runs");
        let why = why.unwrap_err().to_string();
        assert!(why.contains("leads on to http://10.0.0.1/a"), "{why}");
        asked.join().unwrap();
    }

    #[test]
    fn pages_are_in_the_project_that_an_answer_names() {
        let [vision, audio] = ["vision", "audio"].map(|name| name.parse::<ProjectName>().unwrap());
        let remote = Remote::at("http://x/", None);
        assert_eq!(remote.page_in(None, "/jobs"), "http://x/jobs");
        let named = remote.page_in(Some(&vision), "/jobs");
        assert_eq!(named, "http://x/jobs?project=vision");
        let remote = remote.of(Some(&audio));
        assert_eq!(remote.page_in(None, "/jobs"), "http://x/jobs?project=audio");
        assert_eq!(remote.page_in(Some(&vision), "/jobs"), named);
    }
}
