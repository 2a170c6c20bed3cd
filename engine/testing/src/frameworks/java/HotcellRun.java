// hotcell's. Has JUnit find and run the tests of compiled classes, and keeps JUnit's own report.

import java.io.OutputStream;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import org.junit.platform.engine.FilterResult;
import org.junit.platform.engine.TestDescriptor;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.Launcher;
import org.junit.platform.launcher.PostDiscoveryFilter;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.junit.platform.reporting.legacy.xml.LegacyXmlReportGeneratingListener;

public class HotcellRun {
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
        HotcellListener own = new HotcellListener(sources);
        own.plan = launcher.discover(request.build());
        HotcellJunit.emit("session", "version", LauncherFactory.class.getPackage().getImplementationVersion(), "interpreter", java);
        HotcellJunit.emit("collected", "count", own.plan.countTestIdentifiers(TestIdentifier::isTest));
        Path folder = Files.createTempDirectory("junit");
        launcher.execute(own.plan, own, new LegacyXmlReportGeneratingListener(folder, new PrintWriter(System.err, true)));
        Files.createDirectories(report.getParent());
        try (OutputStream out = Files.newOutputStream(report); var written = Files.newDirectoryStream(folder, "TEST-*.xml")) {
            for (Path file : written) {
                HotcellJunit.keep(out, file.getFileName().toString(), file);
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
        String file = HotcellListener.file(at.getClassName(), sources);
        return filter.equals(file) || (at.getClassName() + "::" + at.getMethodName()).contains(filter);
    }
}
