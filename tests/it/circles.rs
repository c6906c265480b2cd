//! The modules of a crate, and those of each folder in it, depend on one another in one direction
//! only. So a reader of either can begin with the module that depends on no other.

use std::collections::{BTreeMap, BTreeSet};

use super::tidy::{Source, paths_used, sources};

const CRATES: [&str; 10] = [
    "trace",
    "api",
    "timeline",
    "answers",
    "render",
    "engine",
    "server",
    "presentation",
    "web",
    "local",
];

/// Modules that really are one, in several files: the folder, and who needs whom there.
const TOGETHER: [(&str, &str, &str); 1] = [
    // Operations on a session make the graph, and the graph runs operations on the session.
    ("engine/src", "session", "autograd"),
];

/// Modules, each with the modules that it depends on.
type Needs = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_module_needs_itself_by_way_of_others() {
    let sources = sources();
    let mut circles = Vec::new();
    for name in CRATES {
        let folders = needs(&sources, name);
        let modules = folders.values().map(BTreeMap::len).max();
        assert!(modules > Some(3), "{name} has few modules: {folders:?}");
        for (folder, mut needs) in folders {
            for (_, one, other) in TOGETHER.iter().filter(|(of, ..)| *of == folder) {
                let lifted = needs.get_mut(*one).is_some_and(|all| all.remove(*other));
                assert!(lifted, "{folder}: {one} no longer needs {other}");
            }
            let circle = circle(&needs);
            circles.extend(circle.map(|circle| format!("{folder}: {}", circle.join(" → "))));
        }
    }
    assert!(circles.is_empty(), "{circles:#?}");
}

/// The dependencies between the modules of each folder of a crate; a folder counts as one module of
/// the folder that it is in.
fn needs(sources: &[Source], name: &str) -> BTreeMap<String, Needs> {
    let root = format!("{name}/src");
    let of_crate: Vec<(Vec<&str>, &Source)> = sources
        .iter()
        .filter(|source| !source.path.contains("/tests") && !source.path.contains("/testing"))
        .filter_map(|source| {
            let path = source.path.strip_prefix(&root)?;
            Some((module(path)?, source))
        })
        .filter(|(module, source)| !is_for_tests(sources, module, source))
        .collect();
    let mut folders: BTreeMap<String, Needs> = BTreeMap::new();
    let folder = |path: &[&str]| [&[root.as_str()], path].concat().join("/");
    for (module, _) in &of_crate {
        for depth in 0..module.len() {
            let needs = folders.entry(folder(&module[..depth])).or_default();
            needs.entry(module[depth].to_owned()).or_default();
        }
    }
    for (module, source) in &of_crate {
        for (_, path) in paths_used(source) {
            let Some(used) = absolute(module, &path) else {
                continue;
            };
            // Where the two ways part, one module needs another.
            let shared = module.iter().zip(&used).take_while(|(a, b)| a == b).count();
            let (Some(this), Some(other)) = (module.get(shared), used.get(shared)) else {
                continue;
            };
            let needs = folders.entry(folder(&module[..shared])).or_default();
            if needs.contains_key(*other)
                && let Some(all) = needs.get_mut(*this)
            {
                all.insert((*other).to_owned());
            }
        }
    }
    folders
}

/// The names on the way from the crate to the module in this file; none for the crate itself.
fn module(path: &str) -> Option<Vec<&str>> {
    let names: Vec<&str> = path
        .strip_prefix('/')?
        .strip_suffix(".rs")?
        .split('/')
        .collect();
    match names.split_last()? {
        (&("lib" | "main"), []) => None,
        (&"mod", folder) => Some(folder.to_vec()),
        _ => Some(names),
    }
}

/// Whether the folder of a file declares it for tests only.
fn is_for_tests(sources: &[Source], module: &[&str], source: &Source) -> bool {
    let (Some(name), Some((folder, _))) = (module.last(), source.path.rsplit_once('/')) else {
        return false;
    };
    let declared = format!("#[cfg(test)]\nmod {name};");
    let mut around = sources
        .iter()
        .filter(|other| other.path == format!("{folder}/mod.rs"));
    around.any(|other| other.text.contains(&declared))
}

/// A path from the crate on; `None` if it leads to another crate or further inwards.
fn absolute<'a>(module: &[&'a str], path: &'a str) -> Option<Vec<&'a str>> {
    let mut names = path.split("::").peekable();
    let mut from = match *names.peek()? {
        "crate" => Vec::new(),
        "super" => module.to_vec(),
        _ => return None,
    };
    if names.next_if_eq(&"crate").is_none() {
        while names.next_if_eq(&"super").is_some() {
            from.pop()?;
        }
    }
    from.extend(names);
    Some(from)
}

#[test]
fn a_path_leads_from_the_crate_to_what_it_names() {
    let check = |module: &[&str], path: &str, expected: Option<&[&str]>| {
        assert_eq!(
            absolute(module, path).as_deref(),
            expected,
            "{module:?} {path}"
        );
    };
    check(&["a", "b"], "crate::c::D", Some(&["c", "D"]));
    check(&["a", "b"], "super::c::D", Some(&["a", "c", "D"]));
    check(&["a", "b"], "super::super::c", Some(&["c"]));
    check(&["a", "b"], "std::fmt", None);
    check(&["a"], "super::super::c", None);
}

/// A chain of dependencies that leads from a module back to itself.
fn circle(needs: &Needs) -> Option<Vec<String>> {
    let mut done = BTreeSet::new();
    let mut modules = needs.keys();
    modules.find_map(|module| follow(needs, module, &mut Vec::new(), &mut done))
}

fn follow<'n>(
    needs: &'n Needs,
    module: &'n str,
    way: &mut Vec<&'n str>,
    done: &mut BTreeSet<&'n str>,
) -> Option<Vec<String>> {
    if let Some(at) = way.iter().position(|&before| before == module) {
        let circle = way[at..].iter().chain([&module]);
        return Some(circle.map(|&name| name.to_owned()).collect());
    }
    if !done.contains(module) {
        way.push(module);
        for next in &needs[module] {
            let found = follow(needs, next, way, done);
            if found.is_some() {
                return found;
            }
        }
        way.pop();
        done.insert(module);
    }
    None
}

#[test]
fn circles_are_found() {
    let check = |edges: &[(&str, &str)], expected: Option<&[&str]>| {
        let mut needs = Needs::new();
        for (from, to) in edges {
            needs.entry((*to).to_owned()).or_default();
            let all = needs.entry((*from).to_owned()).or_default();
            all.insert((*to).to_owned());
        }
        let expected = expected.map(|circle| circle.iter().map(|&m| m.to_owned()).collect());
        assert_eq!(circle(&needs), expected, "{edges:?}");
    };
    check(&[("a", "b"), ("b", "c"), ("a", "c")], None);
    check(&[("a", "b"), ("b", "a")], Some(&["a", "b", "a"]));
    let tail = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "b")];
    check(&tail, Some(&["b", "c", "d", "b"]));
}
