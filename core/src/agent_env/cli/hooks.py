"""The commands of the core."""

from __future__ import annotations

from agent_env.plugin import CommandInfo, hookimpl


@hookimpl
def agentenv_commands() -> list[CommandInfo]:
    """Name, line of help and import string of each."""
    return [
        CommandInfo("bundle check", "Say everything that is wrong in a bundle", "agent_env.cli.bundle_check:command"),
        CommandInfo("bundle list", "List a bundle's splits, tasks and toolsets", "agent_env.cli.bundle_list:command"),
        CommandInfo("bundle new", "Write a small bundle that rehearses", "agent_env.cli.bundle_new:command"),
        CommandInfo("compare", "Say how much better one evaluation is than another", "agent_env.cli.compare:command"),
        CommandInfo("eval", "Evaluate a model on a bundle's tasks", "agent_env.cli.eval:command"),
        CommandInfo("parse", "Show what a tool-call parser sees in a reply", "agent_env.cli.parse:command"),
        CommandInfo("plugins check", "Run a plugin's conformance checks", "agent_env.cli.plugins_check:command"),
        CommandInfo(
            "plugins list", "List installed plugins and what is wrong with them", "agent_env.cli.plugins_list:command"
        ),
        CommandInfo("plugins new", "Write a package with a plugin that works", "agent_env.cli.plugins_new:command"),
        CommandInfo(
            "rehearse", "Play a bundle as a trainer would, with a stand-in model", "agent_env.cli.rehearse:command"
        ),
        CommandInfo("report", "Write an HTML page of an evaluation", "agent_env.cli.report:command"),
        CommandInfo("rows", "Write a trainer's rows for a bundle's server", "agent_env.cli.rows:command"),
        CommandInfo(
            "sandbox ls", "List the sandboxes of all providers that still are", "agent_env.cli.sandbox_ls:command"
        ),
        CommandInfo(
            "sandbox reap", "End the sandboxes that nobody owns any more", "agent_env.cli.sandbox_reap:command"
        ),
        CommandInfo("serve", "Serve every task of a bundle over OpenEnv", "agent_env.cli.serve:command"),
    ]
