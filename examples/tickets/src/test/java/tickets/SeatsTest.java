package tickets;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Disabled;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SeatsTest {
    private final Seats row = new Seats(10);

    @Test
    void theFirstAreTakenFirst() {
        System.out.println("took " + row.take(2));
        assertEquals(3, row.take(1));
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 4})
    void takenSeatsAreNotFree(int count) {
        row.take(count);
        assertEquals(10 - count, row.free());
    }

    @Test
    void theWholeRow() {
        assertEquals(1, row.take(10));
    }

    @Test
    @Disabled("balconies come later")
    void theBalcony() {}

    @Nested
    class WhenFull {
        @Test
        void nothingIsTaken() {
            assertThrows(IllegalStateException.class, () -> row.take(11));
        }
    }
}
