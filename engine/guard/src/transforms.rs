//! Names of transforms in a finding's `derived_from`.

/// True when a step hides text, rather than embedding a language in another (`shell`, `heredoc`).
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
            | "batch"
            | "vbscript"
            | "quoted"
            | "cell"
            | "bytecode"
            | "recipe"
            | "workflow"
            | "url"
    )
}

/// True when a step leads to code that a service runs elsewhere, never a run or a test here.
pub(crate) fn is_elsewhere(step: &str) -> bool {
    step == "workflow"
}
