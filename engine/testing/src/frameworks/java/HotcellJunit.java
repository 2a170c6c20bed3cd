// hotcell's. Has a project's Java built by Maven or Gradle (HotcellBuild), or compiles it and has JUnit run what is compiled
// (HotcellRun), and tells what happens on a pipe: one JSON object a line. Without JUnit this file compiles too, and says so.

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.jar.JarFile;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.tools.Diagnostic;
import javax.tools.DiagnosticCollector;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;

public class HotcellJunit {
    public static final int MISSING = 86;
    private static final String EVENTS = "/proc/self/fd/3";
    private static final List<String> BUILDS = List.of("pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts");
    /** What belongs to no project of its own. */
    private static final Set<String> FOREIGN = Set.of("target", "build", "out", "bin", "node_modules");
    /** Debian's names, without versions; the first that is there of several that hold the same. */
    private static final String[] SYSTEM = {
        "junit-jupiter-api", "junit-jupiter-engine", "junit-jupiter-params", "junit-vintage-engine", "junit-platform-launcher",
        "junit-platform-engine", "junit-platform-commons", "junit-platform-reporting", "junit-platform-suite-api",
        "junit-platform-suite-commons", "junit-platform-suite-engine", "opentest4j", "opentest4j-reporting-events",
        "apiguardian-api", "univocity-parsers", "junit4", "hamcrest-core", "hamcrest", "assertj-core", "mockito-core",
        "byte-buddy", "byte-buddy-agent", "objenesis",
    };
    private static OutputStream pipe;
    /** What ended a class of ours that ran the tests. */
    private static String brokeOff;
    /** Whether others write to it too: then a line has to go in one piece, 4096 bytes at most (pipe(7)). */
    private static boolean shared;

    public static void open(String path) {
        try {
            shared = !path.equals(EVENTS);
            pipe = new FileOutputStream(path);
        } catch (IOException e) {
            // Nothing is reported, and that is not taken for passed.
        }
    }

    /** The longest id. */
    public static int most() {
        return shared ? 1200 : 6000;
    }

    public static synchronized void emit(String kind, Object... fields) {
        if (pipe == null) {
            return;
        }
        byte[] line = line(kind, shared ? 1200 : 7000, fields);
        if (shared && line.length > 4096) {
            line = line(kind, 150, fields);
        }
        try {
            pipe.write(line);
        } catch (IOException e) {
            // Half a line may be out. The run counts as not reported.
            pipe = null;
        }
    }

    private static byte[] line(String kind, int most, Object... fields) {
        StringBuilder line = new StringBuilder("{\"e\":\"").append(kind).append('"');
        for (int i = 0; i < fields.length; i += 2) {
            if (fields[i + 1] == null) {
                continue;
            }
            line.append(",\"").append(fields[i]).append("\":");
            if (fields[i + 1] instanceof Number) {
                line.append(fields[i + 1]);
            } else {
                quote(clip(fields[i + 1].toString(), most), line);
            }
        }
        return line.append("}\n").toString().getBytes(StandardCharsets.UTF_8);
    }

    private static void quote(String text, StringBuilder out) {
        out.append('"');
        for (int c : text.codePoints().toArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append((char) c);
            } else if (c < ' ' || c >= Character.MIN_SURROGATE && c <= Character.MAX_SURROGATE) {
                // Half of a character is none.
                out.append(String.format("\\u%04x", c < ' ' ? c : 0xfffd));
            } else {
                out.appendCodePoint(c);
            }
        }
        out.append('"');
    }

    public static String clip(String text, int most) {
        return text.length() <= most ? text : text.substring(0, most / 2) + "\n...\n" + text.substring(text.length() - most / 2);
    }

    private static List<Path> files(Path top, String ending) throws IOException {
        List<Path> found = new ArrayList<>();
        Files.walkFileTree(top, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult preVisitDirectory(Path folder, BasicFileAttributes about) {
                String name = folder.getFileName() == null ? "" : folder.getFileName().toString();
                boolean foreign = !folder.equals(top) && (name.startsWith(".") || FOREIGN.contains(name));
                return foreign ? FileVisitResult.SKIP_SUBTREE : FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes about) {
                if (about.isRegularFile() && file.toString().endsWith(ending) && !file.endsWith("module-info.java")) {
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

    private static boolean holdsTests(Path top, String ending) {
        try {
            return files(top, ending).stream().anyMatch(file -> file.toString().contains("/src/test/"));
        } catch (IOException e) {
            return false;
        }
    }

    private static boolean holds(Path jar, String entry) {
        try (JarFile file = new JarFile(jar.toFile())) {
            return file.getEntry(entry) != null;
        } catch (IOException e) {
            return false;
        }
    }

    /** Compiles; the first error of each file that has one. */
    public static Map<Path, Diagnostic<? extends JavaFileObject>> compile(List<Path> sources, String path, Path to) throws IOException {
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        DiagnosticCollector<JavaFileObject> said = new DiagnosticCollector<>();
        List<String> options = new ArrayList<>(List.of("-g", "-parameters", "-nowarn", "-implicit:none", "-encoding", "UTF-8"));
        options.addAll(List.of("-cp", path, "-d", to.toString()));
        boolean done;
        try (StandardJavaFileManager manager = compiler.getStandardFileManager(said, null, StandardCharsets.UTF_8)) {
            var units = manager.getJavaFileObjectsFromPaths(sources);
            done = compiler.getTask(null, manager, said, options, null, units).call();
        }
        Map<Path, Diagnostic<? extends JavaFileObject>> errors = new LinkedHashMap<>();
        for (var one : said.getDiagnostics()) {
            if (one.getKind() == Diagnostic.Kind.ERROR) {
                errors.putIfAbsent(one.getSource() == null ? Path.of("javac") : Path.of(one.getSource().toUri()), one);
            }
        }
        return done ? Map.of() : errors;
    }

    /** What a class of ours that was compiled just now does. */
    private static Object call(ClassLoader loader, String name, Object... with) throws Exception {
        var run = Arrays.stream(loader.loadClass(name).getMethods()).filter(method -> method.getName().equals("run")).findFirst().get();
        try {
            return run.invoke(null, with);
        } catch (InvocationTargetException e) {
            e.getCause().printStackTrace();
            brokeOff = "JUnit broke off: " + e.getCause();
            return 3;
        }
    }

    /** Without the properties of the process, of which each of surefire's reports has all. */
    private static byte[] withoutProperties(byte[] bytes) {
        String text = new String(bytes, StandardCharsets.ISO_8859_1);
        int begin = text.indexOf("<properties>"), end = text.indexOf("</properties>"), first = text.indexOf("<testcase");
        boolean before = begin >= 0 && end > begin && (first < 0 || end < first);
        return before ? (text.substring(0, begin) + text.substring(end + 13)).getBytes(StandardCharsets.ISO_8859_1) : bytes;
    }

    /** Puts a report into the final one. */
    public static void keep(OutputStream out, String name, Path file) throws IOException {
        // Larger than all that is read of it: the report says then that it lacks this.
        byte[] bytes = Files.size(file) > 64 << 20 ? new byte[0] : withoutProperties(Files.readAllBytes(file));
        String head = String.format("@hotcell\tprogram\t%s\n@hotcell\tfile\t%s\t%d\n", name, name, bytes.length);
        out.write(head.getBytes(StandardCharsets.UTF_8));
        out.write(bytes);
        out.write(String.format("\n@hotcell\tend\t%s\t0\n", name).getBytes(StandardCharsets.UTF_8));
    }

    static void end(int code, String why) {
        // Memory that ran out ends JUnit itself, and every error between its tests.
        emit("finish", "exit", code, "stopped", brokeOff == null ? why : brokeOff);
        System.out.flush();
        System.err.flush();
        // Threads that tests leave behind do not keep it.
        Runtime.getRuntime().halt(code);
    }

    public static void main(String[] args) throws Exception {
        open(EVENTS);
        Path own = Path.of(args[0]), report = Path.of(args[1]), build = Path.of(args[2]), top = Path.of("").toAbsolutePath();
        String version = System.getProperty("java.version");
        Path runner = Files.createDirectories(build.resolve("runner"));
        List<Path> sources = files(top, ".java");
        List<String> names = sources.stream().map(file -> top.relativize(file).toString()).collect(Collectors.toList());
        String without = null;
        if (BUILDS.stream().anyMatch(name -> Files.exists(top.resolve(name)))) {
            var wrong = compile(List.of(own.resolve("HotcellBuild.java"), own.resolve("HotcellJunit.java")), "", runner);
            if (wrong.isEmpty()) {
                URLClassLoader loader = new URLClassLoader(new URL[] {runner.toUri().toURL()}, HotcellJunit.class.getClassLoader());
                int code = (int) call(loader, "HotcellBuild", own, report, build, top, names, args[3]);
                if (code >= 0) {
                    end(code, null);
                }
            }
            without = "what builds this project, or what it fetched before, is not here: its Java was compiled without it";
            System.err.println("hotcell: " + without);
            if (List.of(".kt", ".groovy", ".scala").stream().anyMatch(ending -> holdsTests(top, ending))) {
                emit("missing", "what", "builder", "interpreter", version);
                Runtime.getRuntime().halt(MISSING);
            }
        }
        List<Path> jars = files(top, ".jar");
        if (jars.stream().noneMatch(jar -> holds(jar, "org/junit/platform/launcher/Launcher.class"))) {
            Arrays.stream(SYSTEM).map(name -> Path.of("/usr/share/java", name + ".jar")).filter(Files::exists).forEach(jars::add);
        }
        String path = jars.stream().map(Path::toString).collect(Collectors.joining(":"));
        Path classes = Files.createDirectories(build.resolve("classes"));
        List<Path> ours = Stream.of("HotcellRun", "HotcellListener", "HotcellJunit").map(name -> own.resolve(name + ".java")).collect(Collectors.toList());
        var broken = compile(ours, path, runner);
        if (!broken.isEmpty()) {
            emit("missing", "what", "junit", "interpreter", version);
            System.err.println("JUnit is not there: " + broken.values().iterator().next().getMessage(null));
            Runtime.getRuntime().halt(MISSING);
        }
        boolean bad = false;
        // Without what does not compile, the rest may.
        while (!sources.isEmpty()) {
            var errors = compile(sources, path, classes);
            if (errors.isEmpty()) {
                break;
            }
            for (var error : errors.entrySet()) {
                String file = top.relativize(error.getKey().toAbsolutePath()).toString();
                Diagnostic<?> what = error.getValue();
                emit("group", "id", file, "status", "errored", "message", what.getMessage(null), "file", file, "at_file", file,
                    "at_line", what.getLineNumber() > 0 ? what.getLineNumber() : null);
                System.err.println(what);
            }
            bad = true;
            if (!sources.removeAll(errors.keySet())) {
                break;
            }
        }
        List<URL> urls = new ArrayList<>();
        List<Path> folders = new ArrayList<>(List.of(classes, runner));
        for (String resources : List.of("src/main/resources", "src/test/resources", "resources")) {
            folders.add(top.resolve(resources));
        }
        folders.addAll(jars);
        for (Path folder : folders) {
            if (Files.exists(folder)) {
                urls.add(folder.toUri().toURL());
            }
        }
        URLClassLoader loader = new URLClassLoader(urls.toArray(new URL[0]), HotcellJunit.class.getClassLoader());
        Thread.currentThread().setContextClassLoader(loader);
        names = sources.stream().map(file -> top.relativize(file).toString()).collect(Collectors.toList());
        int code = (int) call(loader, "HotcellRun", classes, report, names, args[3], version);
        end(bad ? Math.max(1, code % 2) : code, without);
    }
}
