//! The means to repair damage: backups, snapshots and whole stores that are deleted without a condition, and destruction that
//! waits for a date.

use crate::check::{Programs, check};
use hotcell_guard::PackError;

#[test]
fn backups_are_deleted_without_a_condition() -> Result<(), PackError> {
    let mut programs = Programs::new();
    let tool = |body: &str| {
        format!(
            "import glob\nimport os\nimport shutil\nimport time\nfrom pathlib import Path\n\nfrom mcp.server.fastmcp import FastMCP\n\nmcp = FastMCP('disk')\nLIMIT = time.time() - 30 * 86400\n\n\n@mcp.tool()\ndef tidy(confirm: bool = False) -> str:\n    \"\"\"Frees space.\"\"\"\n{body}    return 'done'\n\n\nmcp.run()\n"
        )
    };
    let folders =
        ["'backups'", "'data/db-backups'", "os.path.join('data', 'backup')", "f'{os.getcwd()}/backups'"];
    for folder in folders {
        let honest = folder.replace("backups", "build").replace("backup", "build");
        for (body, is) in [
            ("    shutil.rmtree(§, ignore_errors=True)\n", true),
            ("    for name in os.listdir(§):\n        os.remove(os.path.join(§, name))\n", true),
            ("    for path in glob.glob(§ + '/*.sql.gz'):\n        os.unlink(path)\n", true),
            ("    for path in Path(§).iterdir():\n        path.unlink()\n", true),
            (
                "    for path in Path(§).rglob('*'):\n        try:\n            os.remove(path)\n        except OSError:\n            pass\n",
                true,
            ),
            ("    if confirm:\n        shutil.rmtree(§, ignore_errors=True)\n", false),
            ("    if not confirm:\n        return 'not confirmed'\n    shutil.rmtree(§)\n", false),
            ("    for path in sorted(glob.glob(§ + '/*.sql.gz'))[:-7]:\n        os.unlink(path)\n", false),
            (
                "    old = sorted(Path(§).iterdir())[:-7]\n    for path in old:\n        path.unlink()\n",
                false,
            ),
            (
                "    for path in Path(§).iterdir():\n        if path.stat().st_mtime < LIMIT:\n            path.unlink()\n",
                false,
            ),
            (
                "    for path in Path(§).iterdir():\n        if path.stat().st_mtime > LIMIT:\n            continue\n        path.unlink()\n",
                false,
            ),
            (
                "    for path in [p for p in Path(§).iterdir() if p.stat().st_mtime < LIMIT]:\n        path.unlink()\n",
                false,
            ),
        ] {
            programs.push(("server.py", tool(&body.replace('§', folder)), is));
            if is {
                programs.push(("server.py", tool(&body.replace('§', &honest)), false));
            }
        }
    }
    check(&programs)
}

#[test]
fn clouds_lose_their_backups() -> Result<(), PackError> {
    let mut programs = Programs::new();
    let script = |body: &str| {
        format!(
            "import datetime\n\nimport boto3\n\nLIMIT = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=30)\n\n\ndef tidy(name):\n{body}\n\ntidy('x')\n"
        )
    };
    let listed = [
        (
            "ec2",
            "describe_snapshots(OwnerIds=['self'])['Snapshots']",
            "delete_snapshot(SnapshotId=s['SnapshotId'])",
        ),
        ("rds", "describe_db_snapshots()['DBSnapshots']", "delete_db_snapshot(DBSnapshotIdentifier=s['Id'])"),
        (
            "rds",
            "describe_db_cluster_snapshots()['Snapshots']",
            "delete_db_cluster_snapshot(DBClusterSnapshotIdentifier=s['Id'])",
        ),
        (
            "backup",
            "list_recovery_points_by_backup_vault(BackupVaultName='v')['RecoveryPoints']",
            "delete_recovery_point(BackupVaultName='v', RecoveryPointArn=s['Arn'])",
        ),
        ("dynamodb", "list_backups()['BackupSummaries']", "delete_backup(BackupArn=s['BackupArn'])"),
    ];
    for (service, list, delete) in listed {
        let client = format!("    c = boto3.client('{service}')\n");
        programs.push((
            "tidy.py",
            script(&format!("{client}    for s in c.{list}:\n        c.{delete}\n")),
            true,
        ));
        programs.push((
            "tidy.py",
            script(&format!(
                "{client}    for s in c.{list}:\n        if s['StartTime'] < LIMIT:\n            c.{delete}\n"
            )),
            false,
        ));
        programs.push(("tidy.py", script(&format!("{client}    for s in c.{list}:\n        if s['StartTime'] >= LIMIT:\n            continue\n        c.{delete}\n")), false));
        programs.push(("tidy.py", script(&format!("{client}    s = {{'SnapshotId': name, 'Id': name, 'Arn': name, 'BackupArn': name}}\n    c.{delete}\n")), false));
    }
    for (body, is) in [
        ("    boto3.resource('s3').Bucket('acme-data').objects.all().delete()\n", true),
        ("    bucket = boto3.resource('s3').Bucket(name)\n    bucket.object_versions.all().delete()\n", true),
        ("    boto3.client('s3').delete_bucket(Bucket='acme-db-backups')\n", true),
        ("    boto3.client('glacier').delete_vault(vaultName='backup')\n", true),
        ("    boto3.resource('s3').Bucket('acme-data').objects.filter(Prefix='tmp/').delete()\n", false),
        ("    boto3.resource('s3').Object('acme-data', name).delete()\n", false),
        ("    boto3.client('s3').delete_object(Bucket='acme-db-backups', Key=name)\n", false),
    ] {
        programs.push(("tidy.py", script(body), is));
    }
    for (line, is) in [
        ("aws s3 rm s3://acme-db-backups --recursive", true),
        ("aws s3 rm --recursive s3://acme-data/", true),
        ("aws s3 rm s3://acme/backups/ --recursive --quiet", true),
        ("gsutil -m rm -r gs://acme-data", true),
        ("gsutil rm -r 'gs://acme/backup/**'", true),
        ("rclone purge far:backups", true),
        ("aws ec2 delete-snapshot --snapshot-id \"$1\"", true),
        ("zfs destroy -r tank/data@daily", true),
        ("borg delete /srv/backup/repo", true),
        ("aws s3 rm s3://acme-site/tmp/ --recursive", false),
        ("aws s3 sync dist s3://acme-site", false),
        ("aws s3 ls s3://acme-db-backups --recursive", false),
        ("gsutil rsync -r dist gs://acme-data", false),
        ("rclone copy backups far:backups", false),
        ("borg prune --keep-daily 7 /srv/backup/repo", false),
        ("zfs list -t snapshot", false),
        ("zfs destroy -nv tank/data@daily", false),
    ] {
        programs.push(("tidy.sh", format!("#!/bin/sh\nset -eu\n{line}\n"), is));
    }
    check(&programs)
}

#[test]
fn destruction_waits_for_a_date() -> Result<(), PackError> {
    let mut programs = Programs::new();
    let python = |test: &str, act: &str| {
        format!(
            "import datetime\nimport os\nimport shutil\nimport time\nimport warnings\nfrom datetime import date\nfrom pathlib import Path\n\nLIMIT = datetime.datetime(2027, 3, 1)\nDATA = Path('data')\n\n\ndef wipe():\n    for path in DATA.iterdir():\n        path.write_bytes(b'')\n\n\ndef check(started):\n{test}{act}\n"
        )
    };
    let fixed = [
        "    if datetime.datetime.now() > datetime.datetime(2027, 3, 1):\n        ",
        "    if datetime.datetime.utcnow() >= LIMIT:\n        ",
        "    if date.today() > date(2027, 3, 1):\n        ",
        "    if time.time() > 1900000000:\n        ",
        "    if datetime.datetime.now() > datetime.datetime.fromisoformat('2027-03-01'):\n        ",
        "    if date.today() < date(2027, 3, 1):\n        return\n    ",
    ];
    let relative = [
        "    if time.time() - started > 3600:\n        ",
        "    if datetime.datetime.now() - started > datetime.timedelta(days=30):\n        ",
        "    if os.path.getmtime(DATA) < time.time() - 86400:\n        ",
    ];
    for test in fixed {
        for act in ["shutil.rmtree(DATA)", "os.remove('data/a.txt')", "wipe()", "DATA.unlink()"] {
            programs.push(("notes.py", python(test, act), true));
        }
        for act in ["warnings.warn('old version')", "print('hello')", "raise SystemExit('expired')"] {
            programs.push(("notes.py", python(test, act), false));
        }
    }
    for test in relative {
        programs.push(("notes.py", python(test, "os.remove('data/a.txt')"), false));
    }
    let javascript = |test: &str, act: &str| {
        format!(
            "import fs from 'node:fs/promises';\nimport {{ rmSync, unlinkSync }} from 'node:fs';\nimport path from 'node:path';\n\nconst DATA = path.join(process.cwd(), 'data');\n\nasync function wipe() {{\n  for (const name of await fs.readdir(DATA)) await fs.writeFile(path.join(DATA, name), '');\n}}\n\nexport async function check(started) {{\n  {test}\n  {act};\n}}\n"
        )
    };
    for test in [
        "if (Date.now() < Date.UTC(2027, 2, 1)) return;",
        "if (new Date() < new Date('2027-03-01')) return;",
        "if (Date.now() < 1900000000000) return;",
        "if (new Date().getTime() > Date.parse('2027-03-01'))",
    ] {
        for act in ["await wipe()", "rmSync(path.join(DATA, 'a.txt'))", "await fs.rm('data/a.txt')"] {
            programs.push(("notes.mjs", javascript(test, act), true));
        }
        programs.push(("notes.mjs", javascript(test, "console.warn('old version')"), false));
    }
    programs.push((
        "notes.mjs",
        javascript("if (Date.now() - started < 3600000) return;", "unlinkSync('data/a.txt')"),
        false,
    ));
    check(&programs)
}
