// hotcell's. Tells what JUnit does with each test. A service of JUnit's platform, so that it works wherever that runs: in
// HotcellRun, and within what Maven starts.

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.TestPlan;

public class HotcellListener implements TestExecutionListener {
    private final List<String> sources;
    /** Where classes leave a trace that they were followed. */
    private final Path seen;
    // Tests may run beside each other.
    private final Map<String, Long> since = new ConcurrentHashMap<>();
    final Set<String> ended = ConcurrentHashMap.newKeySet();
    /** Plans that are being executed: those within another are what a test tests. */
    private static final AtomicInteger PLANS = new AtomicInteger();
    private boolean inner;
    TestPlan plan;
    boolean bad;

    HotcellListener(List<String> sources) {
        this.sources = sources;
        seen = null;
    }

    /** Within a process that HotcellBuild has started. */
    public HotcellListener() throws Exception {
        String folder = System.getenv("HOTCELL_BUILD");
        sources = folder == null ? List.of() : Files.readAllLines(Path.of(folder, "sources"));
        seen = folder == null ? null : Path.of(folder, "seen");
        String events = System.getenv("HOTCELL_EVENTS");
        if (events != null) {
            HotcellJunit.open(events);
        }
    }

    @Override
    public void testPlanExecutionStarted(TestPlan plan) {
        this.plan = plan;
        inner = PLANS.getAndIncrement() > 0;
    }

    @Override
    public void testPlanExecutionFinished(TestPlan plan) {
        PLANS.decrementAndGet();
    }

    /** The source of a class. */
    static String file(String name, List<String> sources) {
        return source(name.split("\\$", 2)[0].replace('.', '/') + ".java", sources);
    }

    private static String source(String path, List<String> sources) {
        for (String source : sources) {
            if (source.equals(path) || source.endsWith("/" + path)) {
                return source;
            }
        }
        return null;
    }

    private String id(TestIdentifier test) {
        return HotcellJunit.clip(className(test) + "::" + test.getLegacyReportingName(), HotcellJunit.most());
    }

    /** As JUnit's own reports have it. */
    private String className(TestIdentifier test) {
        for (TestIdentifier at = test; at != null; at = plan.getParent(at).orElse(null)) {
            if (at.getSource().orElse(null) instanceof ClassSource) {
                return ((ClassSource) at.getSource().get()).getClassName();
            }
        }
        return plan.getParent(test).map(TestIdentifier::getLegacyReportingName).orElse("<unrooted>");
    }

    private void followed(TestIdentifier test) {
        if (seen != null && test.getSource().orElse(null) instanceof ClassSource) {
            try {
                Files.createDirectories(seen.resolve(className(test)));
            } catch (IOException | InvalidPathException e) {
                // Its report says what came of it then.
            }
        }
    }

    private String fileOf(TestIdentifier test) {
        return test.getSource().map(at -> at instanceof MethodSource ? ((MethodSource) at).getClassName()
            : at instanceof ClassSource ? ((ClassSource) at).getClassName() : null).map(name -> file(name, sources)).orElse(null);
    }

    /** The source of a frame, whose class may lie in another's file. */
    private String file(StackTraceElement at) {
        if (at == null || at.getFileName() == null || at.getLineNumber() <= 0) {
            return null;
        }
        int dot = at.getClassName().lastIndexOf('.');
        return source(at.getClassName().substring(0, dot + 1).replace('.', '/') + at.getFileName(), sources);
    }

    private void group(TestIdentifier test, String status, String message, StackTraceElement at) {
        HotcellJunit.emit("group", "id", id(test), "status", status, "message", message, "file", fileOf(test),
            "at_file", file(at), "at_line", at == null ? null : at.getLineNumber(),
            "hides", status.equals("skipped") ? 1 : null);
        ended.add(test.getUniqueId());
    }

    private StackTraceElement place(Throwable error) {
        int depth = 0;
        for (Throwable one = error; one != null && depth < 50; one = one.getCause(), depth++) {
            for (StackTraceElement frame : one.getStackTrace()) {
                if (file(frame) != null) {
                    return frame;
                }
            }
        }
        return null;
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        if (inner) {
            return;
        }
        followed(test);
        if (test.isTest()) {
            group(test, "skipped", reason, null);
        }
        plan.getDescendants(test).stream().filter(TestIdentifier::isTest).forEach(below -> group(below, "skipped", reason, null));
    }

    @Override
    public void executionStarted(TestIdentifier test) {
        if (inner) {
            return;
        }
        followed(test);
        if (test.isTest()) {
            since.put(test.getUniqueId(), System.nanoTime());
            HotcellJunit.emit("start", "id", id(test), "file", fileOf(test));
        }
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        if (inner) {
            return;
        }
        Throwable error = result.getThrowable().orElse(null);
        String status = result.getStatus() == TestExecutionResult.Status.SUCCESSFUL ? "passed"
            : result.getStatus() == TestExecutionResult.Status.ABORTED ? "skipped" : error instanceof AssertionError ? "failed" : "errored";
        boolean failed = result.getStatus() == TestExecutionResult.Status.FAILED;
        bad |= failed;
        StackTraceElement at = failed && error != null ? place(error) : null;
        String message = error == null ? null : error instanceof AssertionError ? error.getMessage() : error.toString();
        if (test.isTest()) {
            Long begun = since.get(test.getUniqueId());
            HotcellJunit.emit("end", "id", id(test), "status", status, "ms", begun == null ? 0 : (System.nanoTime() - begun) / 1e6,
                "message", message, "at_file", file(at),
                "at_line", at == null ? null : at.getLineNumber());
            ended.add(test.getUniqueId());
        } else if (!status.equals("passed")) {
            // What belongs to all below is each one's.
            boolean[] any = {false};
            plan.getDescendants(test).stream().filter(TestIdentifier::isTest).forEach(below -> {
                any[0] = true;
                group(below, status, message, at);
            });
            if (!any[0]) {
                group(test, status, message, at);
            }
        }
    }
}
