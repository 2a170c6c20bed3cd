//! The names of transforms in a finding's `derived_from`.

/// Whether a step hides text, as opposed to one that only embeds a language in another (`shell`, `heredoc`).
pub(crate) fn is_disguise(step: &str) -> bool {
    !matches!(
        step,
        "shell"
            | "python"
            | "sql"
            | "javascript"
            | "heredoc"
            | "file"
            | "powershell"
            | "quoted"
            | "cell"
            | "bytecode"
            | "recipe"
            | "workflow"
            | "url"
    )
}

/// Whether a step leads to what a service runs somewhere else, never a run or a test here.
pub(crate) fn is_elsewhere(step: &str) -> bool {
    step == "workflow"
}
