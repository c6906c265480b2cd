//! The modules of a crate depend on one another in one direction only. So a reader of a crate can
//! begin with the module that depends on no other.

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

/// Two modules that really are one, in two folders: operations on a session make the graph, and the
/// graph runs operations on the session.
const TOGETHER: [(&str, &str, &str); 1] = [("engine", "session", "autograd")];

/// Modules, each with the modules that it depends on.
type Needs = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_module_needs_itself_by_way_of_others() {
    let sources = sources();
    let mut circles = Vec::new();
    for name in CRATES {
        let mut needs = needs(&sources, name);
        assert!(needs.len() > 3, "{name} has few modules: {needs:?}");
        for (_, one, other) in TOGETHER.iter().filter(|(of, ..)| of == &name) {
            let lifted = needs.get_mut(*one).is_some_and(|all| all.remove(*other));
            assert!(lifted, "{name}: {one} no longer needs {other}");
        }
        let circle = circle(&needs);
        circles.extend(circle.map(|circle| format!("{name}: {}", circle.join(" → "))));
    }
    assert!(circles.is_empty(), "{circles:#?}");
}

/// The dependencies between the top modules of a crate.
fn needs(sources: &[Source], name: &str) -> Needs {
    let root = format!("{name}/src/");
    let of_crate = |source: &&Source| source.path.starts_with(&root);
    let module = |source: &Source| -> Option<String> {
        let first = source.path[root.len()..].split('/').next()?;
        let first = first.strip_suffix(".rs").unwrap_or(first);
        (first != "lib" && first != "main").then(|| first.to_owned())
    };
    let mut needs = Needs::new();
    for source in sources.iter().filter(of_crate) {
        if let Some(module) = module(source) {
            needs.entry(module).or_default();
        }
    }
    let is_product =
        |source: &&Source| !source.path.contains("/tests") && !source.path.contains("/testing");
    for source in sources.iter().filter(of_crate).filter(is_product) {
        let Some(this) = module(source) else { continue };
        let at_the_top = !source.path[root.len()..].contains('/');
        for (_, path) in paths_used(source) {
            let outside = path.strip_prefix("crate::").or_else(|| {
                let beside = path.strip_prefix("super::");
                beside.filter(|_| at_the_top)
            });
            let other = outside.and_then(|rest| rest.split("::").next());
            if let Some(other) = other.filter(|&other| other != this)
                && needs.contains_key(other)
                && let Some(all) = needs.get_mut(&this)
            {
                all.insert(other.to_owned());
            }
        }
    }
    needs
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
