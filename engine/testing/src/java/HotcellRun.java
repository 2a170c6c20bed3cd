// hotcell's. Has JUnit find and run the tests of compiled classes, tells what happens, and keeps JUnit's own report.

import java.io.OutputStream;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.platform.engine.FilterResult;
import org.junit.platform.engine.TestDescriptor;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.Launcher;
import org.junit.platform.launcher.PostDiscoveryFilter;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.TestPlan;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.junit.platform.reporting.legacy.LegacyReportingUtils;
import org.junit.platform.reporting.legacy.xml.LegacyXmlReportGeneratingListener;

public class HotcellRun implements TestExecutionListener {
    private final List<String> sources;
    private final Map<String, Long> since = new HashMap<>();
    private final Set<String> ended = new HashSet<>();
    private TestPlan plan;
    private boolean bad;

    private HotcellRun(List<String> sources) {
        this.sources = sources;
    }

    public static int run(Path classes, Path report, List<String> sources, String filter, String java) throws Exception {
        LauncherDiscoveryRequestBuilder request = LauncherDiscoveryRequestBuilder.request()
            .selectors(DiscoverySelectors.selectClasspathRoots(Set.of(classes)))
            .configurationParameter("junit.platform.output.capture.stdout", "true")
            .configurationParameter("junit.platform.output.capture.stderr", "true")
            .configurationParameter("junit.jupiter.execution.parallel.enabled", "false");
        // Always the same, where the project says nothing else.
        if (Thread.currentThread().getContextClassLoader().getResource("junit-platform.properties") == null) {
            request.configurationParameter("junit.jupiter.testclass.order.default", "org.junit.jupiter.api.ClassOrderer$ClassName");
        }
        if (!filter.isEmpty()) {
            request.filters((PostDiscoveryFilter) test -> FilterResult.includedIf(wanted(test, filter, sources)));
        }
        Launcher launcher = LauncherFactory.create();
        HotcellRun own = new HotcellRun(sources);
        own.plan = launcher.discover(request.build());
        HotcellJunit.emit("session", "version", LauncherFactory.class.getPackage().getImplementationVersion(), "interpreter", java);
        HotcellJunit.emit("collected", "count", own.plan.countTestIdentifiers(TestIdentifier::isTest));
        Path folder = Files.createTempDirectory("junit");
        launcher.execute(own.plan, own, new LegacyXmlReportGeneratingListener(folder, new PrintWriter(System.err, true)));
        Files.createDirectories(report.getParent());
        try (OutputStream out = Files.newOutputStream(report); var written = Files.newDirectoryStream(folder, "TEST-*.xml")) {
            for (Path file : written) {
                byte[] bytes = Files.readAllBytes(file);
                String name = file.getFileName().toString();
                out.write(String.format("@hotcell\tprogram\t%s\n@hotcell\tfile\t%s\t%d\n", name, name, bytes.length).getBytes(StandardCharsets.UTF_8));
                out.write(bytes);
                out.write(String.format("\n@hotcell\tend\t%s\t0\n", name).getBytes(StandardCharsets.UTF_8));
            }
            out.write("@hotcell\tdone\t-\t0\n".getBytes(StandardCharsets.UTF_8));
        }
        return own.bad ? 1 : own.ended.isEmpty() ? 2 : 0;
    }

    /** A method's id, a file, or a part of an id. */
    private static boolean wanted(TestDescriptor test, String filter, List<String> sources) {
        MethodSource at = test.getSource().filter(MethodSource.class::isInstance).map(MethodSource.class::cast).orElse(null);
        if (at == null) {
            return true;
        }
        int cut = filter.indexOf("::");
        if (cut >= 0 && cut + 2 < filter.length()) {
            String method = filter.substring(cut + 2).split("[(\\[]", 2)[0];
            return at.getClassName().equals(filter.substring(0, cut)) && at.getMethodName().equals(method);
        }
        String file = file(at.getClassName(), sources);
        return filter.equals(file) || (at.getClassName() + "::" + at.getMethodName()).contains(filter);
    }

    /** The source of a class. */
    private static String file(String name, List<String> sources) {
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
        return HotcellJunit.clip(LegacyReportingUtils.getClassName(plan, test) + "::" + test.getLegacyReportingName(), 6000);
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
        for (Throwable one = error; one != null; one = one.getCause()) {
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
        if (test.isTest()) {
            group(test, "skipped", reason, null);
        }
        plan.getDescendants(test).stream().filter(TestIdentifier::isTest).forEach(below -> group(below, "skipped", reason, null));
    }

    @Override
    public void executionStarted(TestIdentifier test) {
        if (test.isTest()) {
            since.put(test.getUniqueId(), System.nanoTime());
            HotcellJunit.emit("start", "id", id(test), "file", fileOf(test));
        }
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
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
