//! Rights in a cluster that everyone gets, also without a name.

use serde_yaml_ng::Value as Yaml;

/// Roles that may change everything in a cluster or a namespace.
const POWERFUL: &[&str] = &["cluster-admin", "admin", "edit"];
/// Groups and users that anybody is, or any account of the cluster.
const EVERYONE: &[&str] =
    &["system:anonymous", "system:unauthenticated", "system:authenticated", "system:serviceaccounts"];

/// Name of the subject that gets a powerful role and stands for everyone.
pub(super) fn open_to_everyone(document: &Yaml) -> Option<&str> {
    let kind = document.get("kind").and_then(Yaml::as_str).unwrap_or("");
    let role = document.get("roleRef").and_then(|role| role.get("name")).and_then(Yaml::as_str);
    if !kind.ends_with("RoleBinding") || !role.is_some_and(|role| POWERFUL.contains(&role)) {
        return None;
    }
    let subjects = document.get("subjects").and_then(Yaml::as_sequence)?;
    let mut names = subjects.iter().filter_map(|subject| subject.get("name").and_then(Yaml::as_str));
    names.find(|name| EVERYONE.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_open_to_everyone() {
        let binding = |kind: &str, role: &str, subject: &str| {
            format!(
                "kind: {kind}\nroleRef: {{kind: ClusterRole, name: {role}}}\nsubjects: [{{kind: Group, name: '{subject}'}}]\n"
            )
        };
        for (kind, role, subject, is) in [
            ("ClusterRoleBinding", "cluster-admin", "system:anonymous", true),
            ("RoleBinding", "edit", "system:unauthenticated", true),
            ("ClusterRoleBinding", "cluster-admin", "system:serviceaccounts", true),
            ("ClusterRoleBinding", "cluster-admin", "ops", false),
            ("ClusterRoleBinding", "view", "system:authenticated", false),
            ("ClusterRole", "cluster-admin", "system:anonymous", false),
        ] {
            let document: Yaml = serde_yaml_ng::from_str(&binding(kind, role, subject)).unwrap_or(Yaml::Null);
            assert_eq!(open_to_everyone(&document).is_some(), is, "{kind} {role} {subject}");
        }
    }
}
