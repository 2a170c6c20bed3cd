// hotcell's. Has Maven or Gradle build and test a project with what they fetched before, without a network, and collects what they
// report. What happens to each test is told as it happens: by HotcellListener in the processes of Maven's surefire, by hotcell.gradle.

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileVisitOption;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.xml.stream.XMLInputFactory;
import javax.xml.stream.XMLStreamConstants;
import javax.xml.stream.XMLStreamException;
import javax.xml.stream.XMLStreamReader;

public class HotcellBuild {
    private static final String SUREFIRE = "org/apache/maven/plugins/maven-surefire-plugin";
    private static final Path HOME = Path.of(System.getenv().getOrDefault("HOME", "/"));
    private static final Pattern[] BROKEN = {
        Pattern.compile("\\[ERROR\\] (?:file://)?(/.+?\\.(?:java|kt|groovy|scala)):[ \\[(]*(\\d+)(?:[,:] ?\\d+)?[\\])]* ?(.*)"),
        Pattern.compile("(?:e: )?(?:file://)?(/.+?\\.(?:java|kt|groovy|scala)):(\\d+)(?::\\d+)?:? (?:error: )(.*)"),
        Pattern.compile("e: (?:file://)?(/.+?\\.kts?):(\\d+)(?::\\d+)? (.*)"),
    };
    private static final Pattern[] MISSING = {
        Pattern.compile("the artifact (\\S+) has not been downloaded"),
        Pattern.compile("Could not find artifact (\\S+)"),
        Pattern.compile("could not be resolved: (\\S+:\\S+)"),
        Pattern.compile("No cached version of (\\S+) available"),
        Pattern.compile("> Could not find (\\S+:\\S+?)\\.$"),
        Pattern.compile("Plugin \\[id: '([^']+)'"),
    };

    /** Of Maven's last words those of a build that went wrong otherwise than by tests and compilers. */
    private static final Pattern FAILED = Pattern.compile("\\[ERROR\\] Failed to execute goal (.*)");
    /** Said where the project's settings let a build go on without its tests. */
    private static final Pattern GONE = Pattern.compile("\\[(?:ERROR|WARNING)\\].*(?:The forked VM terminated|There was a timeout|ExecutionException|There are test failures).*");
    /** Where reports are, below a module. */
    private static final Pattern REPORT = Pattern.compile("(?:.*/)?(?:target/surefire-reports|build/test-results/[^/]+)/TEST-[^/]*\\.xml");
    /** Folders with what tests read, and with other builds. */
    private static final Pattern OTHERS = Pattern.compile("(?:.*/)?(?:src/[^/]+/resources|(?:target|build)/(?:test-classes|classes|resources|it|tmp)|\\.git|node_modules)");

    private final Path top, build, report;
    private final List<String> sources;
    private final String filter;
    /** What does not compile: the first error of each file. */
    private final Map<String, String[]> broken = new LinkedHashMap<>();
    private String missing, complaint, failed, gone;
    private int tests, bad;

    private HotcellBuild(Path top, Path build, Path report, List<String> sources, String filter) {
        this.top = top;
        this.build = build;
        this.report = report;
        this.sources = sources;
        this.filter = filter;
    }

    /** The code to end with; -1 where the project has neither, or what it is built with is not here. */
    public static int run(Path own, Path report, Path build, Path top, List<String> sources, String filter) throws Exception {
        HotcellBuild it = new HotcellBuild(top, build, report, sources, filter);
        List<String> words = null;
        // A project that has both is Maven's, where that is here.
        if (Files.exists(top.resolve("pom.xml"))) {
            words = it.maven(own);
        }
        boolean gradle = Stream.of("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts").anyMatch(name -> Files.exists(top.resolve(name)));
        if (words == null && gradle) {
            words = it.gradle(own);
        }
        if (words == null) {
            return -1;
        }
        // Reports that are there already are of other runs.
        for (Path old : it.reports()) {
            Files.delete(old);
        }
        return it.judge(it.follow(words));
    }

    private static Path program(String name) {
        for (String folder : System.getenv().getOrDefault("PATH", "").split(":")) {
            Path file = Path.of(folder.isEmpty() ? "." : folder, name);
            if (file.isAbsolute() && Files.isExecutable(file)) {
                return file;
            }
        }
        return null;
    }

    /** What a wrapper has fetched before: `properties` says which version it wants. */
    private Path wrapped(Path properties, Path dists, String name) throws IOException {
        Path file = top.resolve(properties);
        if (!Files.isRegularFile(file) || !Files.isDirectory(dists)) {
            return null;
        }
        for (String line : Files.readAllLines(file)) {
            if (line.startsWith("distributionUrl")) {
                String version = line.substring(line.lastIndexOf('/') + 1).trim().replaceFirst("(-bin|-all)?\\.zip$", "");
                try (Stream<Path> found = Files.find(dists, 5, (at, about) -> at.endsWith(Path.of("bin", name)) && at.toString().contains(version))) {
                    return found.sorted().findFirst().orElse(null);
                }
            }
        }
        return null;
    }

    private List<String> maven(Path own) throws Exception {
        Path mvn = wrapped(Path.of(".mvn/wrapper/maven-wrapper.properties"), HOME.resolve(".m2/wrapper/dists"), "mvn");
        mvn = mvn != null ? mvn : Files.isExecutable(HOME.resolve(".maven/bin/mvn")) ? HOME.resolve(".maven/bin/mvn") : program("mvn");
        Path store = Stream.of(HOME.resolve(".m2/repository"), Path.of("/usr/share/maven-repo"))
            .filter(at -> Files.isDirectory(at.resolve(SUREFIRE))).findFirst().orElse(null);
        if (mvn == null || store == null) {
            return null;
        }
        Files.write(build.resolve("sources"), sources);
        List<String> words = new ArrayList<>(List.of(mvn.toString(), "--offline", "--batch-mode", "--fail-at-end", "-Dstyle.color=never",
            // Always the same, where the project says nothing else: files come in no order.
            "-Dsurefire.runOrder=alphabetical", "-Dmaven.repo.local=" + store, "-DfailIfNoTests=false", "-Dsurefire.failIfNoSpecifiedTests=false",
            // Where an artifact came from does not matter: nothing is fetched.
            "-Dmaven.legacyLocalRepo=true", "-Daether.enhancedLocalRepository.trackingFilename=none"));
        Path listener = listener(own, store);
        if (listener != null) {
            words.add("-Dmaven.test.additionalClasspath=" + listener);
        }
        if (!filter.isEmpty()) {
            words.add("-Dtest=" + (filter.contains("::") ? exact("#") : isFile() ? named(filter) : "*" + filter + "*,*#*" + filter + "*"));
        }
        words.addAll(given());
        words.add("test");
        return words;
    }

    /** Where JUnit's platform is not in the store, no test of it can run. */
    private Path listener(Path own, Path store) throws IOException {
        List<Path> jars = new ArrayList<>();
        for (String name : List.of("org/junit/platform/junit-platform-launcher", "org/junit/platform/junit-platform-engine",
            "org/junit/platform/junit-platform-commons", "org/apiguardian/apiguardian-api", "org/opentest4j/opentest4j")) {
            if (Files.isDirectory(store.resolve(name))) {
                try (Stream<Path> found = Files.find(store.resolve(name), 2, (at, about) -> at.toString().endsWith(".jar"), FileVisitOption.FOLLOW_LINKS)) {
                    found.filter(at -> !at.toString().matches(".*-(sources|javadoc|tests)\\.jar")).max(Comparator.naturalOrder()).ifPresent(jars::add);
                }
            }
        }
        Path folder = Files.createDirectories(build.resolve("listener"));
        String path = jars.stream().map(Path::toString).collect(Collectors.joining(File.pathSeparator));
        if (!HotcellJunit.compile(List.of(own.resolve("HotcellListener.java"), own.resolve("HotcellJunit.java")), path, folder).isEmpty()) {
            return null;
        }
        Path services = Files.createDirectories(folder.resolve("META-INF/services"));
        Files.writeString(services.resolve("org.junit.platform.launcher.TestExecutionListener"), "HotcellListener\n");
        return folder;
    }

    private List<String> gradle(Path own) throws IOException {
        Path gradle = wrapped(Path.of("gradle/wrapper/gradle-wrapper.properties"), HOME.resolve(".gradle/wrapper/dists"), "gradle");
        gradle = gradle != null ? gradle : program("gradle");
        if (gradle == null) {
            return null;
        }
        List<String> words = new ArrayList<>(List.of(gradle.toString(), "--offline", "--no-daemon", "--console=plain", "--continue",
            // What follows its tests cannot be kept in it.
            "-Dorg.gradle.configuration-cache=false", "-Dorg.gradle.unsafe.configuration-cache=false", "--init-script", own.resolve("hotcell.gradle").toString()));
        words.addAll(given());
        words.add("test");
        return words;
    }

    /** Options that the operator gives the build. */
    private static List<String> given() {
        return System.getenv().getOrDefault("HOTCELL_BUILD_ARGS", "").lines().collect(Collectors.toList());
    }

    /** The class and method of an id, for these tools. */
    private String exact(String between) {
        String[] parts = filter.split("::", 2);
        String method = parts[1].split("[(\\[]", 2)[0];
        return method.isEmpty() ? parts[0] : parts[0] + between + method;
    }

    private boolean isFile() {
        return filter.matches(".*\\.(java|kt|groovy|scala)");
    }

    /** The class that a file is named for. */
    private String named(String file) throws IOException {
        String name = Path.of(file).getFileName().toString().replaceFirst("\\.[a-z]+$", "");
        if (Files.isRegularFile(top.resolve(file))) {
            Matcher at = Pattern.compile("(?m)^\\s*package\\s+([\\w.]+)").matcher(Files.readString(top.resolve(file), StandardCharsets.ISO_8859_1));
            return at.find() ? at.group(1) + "." + name : name;
        }
        return name;
    }

    /** Runs it to its end: the exit code. */
    private int follow(List<String> words) throws Exception {
        ProcessBuilder process = new ProcessBuilder(words).redirectErrorStream(true).redirectInput(new File("/dev/null"));
        Map<String, String> env = process.environment();
        env.put("HOTCELL_EVENTS", "/proc/" + ProcessHandle.current().pid() + "/fd/3");
        env.put("HOTCELL_BUILD", build.toString());
        env.put("HOTCELL_FILTER", filter.isEmpty() ? "" : filter.contains("::") ? exact(".") : isFile() ? named(filter) : "*" + filter + "*");
        env.put("JAVA_HOME", System.getProperty("java.home"));
        // Programs that live for seconds.
        env.merge("MAVEN_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", (theirs, ours) -> ours + " " + theirs);
        Path store = HOME.resolve(".gradle-caches");
        if (Files.isDirectory(store)) {
            env.put("GRADLE_RO_DEP_CACHE", store.toString());
        }
        HotcellJunit.emit("session", "interpreter", System.getProperty("java.version"));
        Process running = process.start();
        boolean wrong = false;
        try (BufferedReader said = new BufferedReader(new InputStreamReader(running.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = next(said); line != null; line = next(said)) {
                System.out.println(line);
                for (Pattern pattern : BROKEN) {
                    Matcher at = pattern.matcher(line);
                    if (at.matches() && Path.of(at.group(1)).startsWith(top)) {
                        broken.putIfAbsent(top.relativize(Path.of(at.group(1))).toString(), new String[] {at.group(2), at.group(3)});
                        break;
                    }
                }
                for (Pattern pattern : MISSING) {
                    Matcher at = pattern.matcher(line);
                    if (missing == null && at.find()) {
                        missing = at.group(1).replaceFirst("[:,;.]+$", "");
                    }
                }
                Matcher goal = FAILED.matcher(line);
                if (failed == null && goal.matches() && !goal.group(1).contains("There are test failures") && !goal.group(1).contains("ompilation failure")) {
                    failed = goal.group(1);
                }
                if (gone == null && GONE.matcher(line).matches()) {
                    gone = line;
                }
                boolean error = line.startsWith("[ERROR] ") && line.length() > 8 && !line.startsWith("[ERROR] Tests run:");
                if (complaint == null && (error || wrong && !line.isBlank())) {
                    complaint = line.replaceFirst("^\\[ERROR\\] ", "").trim();
                }
                wrong = line.startsWith("* What went wrong:") || wrong && line.isBlank();
            }
        }
        return running.waitFor();
    }

    /** The next line, or its beginning. */
    private static String next(BufferedReader from) throws IOException {
        StringBuilder line = new StringBuilder();
        int c = from.read();
        if (c < 0) {
            return null;
        }
        for (; c >= 0 && c != '\n'; c = from.read()) {
            if (line.length() < 4000) {
                line.append((char) c);
            }
        }
        return line.toString();
    }

    /** JUnit's XML wherever these tools leave it. */
    private List<Path> reports() throws IOException {
        List<Path> found = new ArrayList<>();
        Files.walkFileTree(top, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult preVisitDirectory(Path folder, BasicFileAttributes about) {
                boolean other = !folder.equals(top) && OTHERS.matcher(top.relativize(folder).toString()).matches();
                return other ? FileVisitResult.SKIP_SUBTREE : FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes about) {
                if (about.isRegularFile() && REPORT.matcher(top.relativize(file).toString()).matches()) {
                    found.add(file);
                }
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFileFailed(Path file, IOException why) {
                return FileVisitResult.CONTINUE;
            }
        });
        found.sort(null);
        return found;
    }

    private int judge(int code) throws IOException {
        Files.createDirectories(report.getParent());
        try (OutputStream out = Files.newOutputStream(report)) {
            for (Path file : reports()) {
                HotcellJunit.keep(out, top.relativize(file).toString(), file);
                try {
                    read(file);
                } catch (XMLStreamException e) {
                    // Who reads the report will say so.
                    bad++;
                }
            }
            out.write("@hotcell\tdone\t-\t0\n".getBytes(StandardCharsets.UTF_8));
        }
        // A linter may say the like of a build that is well.
        if (code == 0) {
            broken.clear();
        }
        broken.forEach((file, what) -> HotcellJunit.emit("group", "id", file, "status", "errored", "message", what[1], "file", file,
            "at_file", file, "at_line", what[0].length() < 9 ? Long.valueOf(what[0]) : null));
        if (tests == 0 && broken.isEmpty() && missing != null) {
            HotcellJunit.emit("missing", "what", "artifact " + missing, "interpreter", System.getProperty("java.version"));
            return HotcellJunit.MISSING;
        }
        // Where settings have failed tests ignored, so are processes that ended before their tests.
        boolean ended = code == 0 && gone != null && bad == 0;
        if (failed != null || ended || code != 0 && bad == 0 && broken.isEmpty()) {
            String file = Files.exists(top.resolve("pom.xml")) ? "pom.xml" : "build.gradle";
            HotcellJunit.emit("group", "id", file, "status", "errored", "file", file,
                "message", failed != null ? failed : ended ? gone : complaint == null ? "the build ended with " + code : complaint);
            bad++;
        }
        return bad > 0 || !broken.isEmpty() ? 1 : tests == 0 ? 2 : 0;
    }

    /** Counts the tests of a report. Those that nobody could follow are told now: the old JUnit's have no listener of ours. */
    private void read(Path file) throws IOException, XMLStreamException {
        XMLInputFactory factory = XMLInputFactory.newInstance();
        factory.setProperty(XMLInputFactory.SUPPORT_DTD, false);
        boolean maven = file.toString().contains("/surefire-reports/");
        String id = null, status = "passed", message = null, time = null;
        boolean told = true;
        try (InputStream in = Files.newInputStream(file)) {
            XMLStreamReader xml = factory.createXMLStreamReader(in);
            while (xml.hasNext()) {
                int what = xml.next();
                String name = xml.isStartElement() || xml.isEndElement() ? xml.getLocalName() : "";
                if (what == XMLStreamConstants.START_ELEMENT && name.equals("testcase")) {
                    String own = xml.getAttributeValue(null, "classname");
                    id = own + "::" + xml.getAttributeValue(null, "name");
                    time = xml.getAttributeValue(null, "time");
                    status = "passed";
                    message = null;
                    tests++;
                    told = !maven || own == null || Files.exists(build.resolve("seen").resolve(own));
                } else if (what == XMLStreamConstants.START_ELEMENT && id != null && Set.of("failure", "error", "skipped").contains(name)) {
                    status = name.equals("failure") ? "failed" : name.equals("error") ? "errored" : "skipped";
                    message = xml.getAttributeValue(null, "message");
                } else if (what == XMLStreamConstants.END_ELEMENT && name.equals("testcase")) {
                    bad += status.equals("failed") || status.equals("errored") ? 1 : 0;
                    if (!told) {
                        HotcellJunit.emit("start", "id", id);
                        HotcellJunit.emit("end", "id", id, "status", status, "ms", milliseconds(time), "message", message);
                    }
                    id = null;
                }
            }
        }
    }

    private static double milliseconds(String time) {
        try {
            return time == null ? 0 : Double.parseDouble(time.replace(",", "")) * 1000;
        } catch (NumberFormatException e) {
            return 0;
        }
    }
}
